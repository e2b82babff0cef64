PRAGMA application_id = 1953655138;
BEGIN TRANSACTION;
CREATE TABLE deliveries (
                key TEXT PRIMARY KEY,
                at INTEGER NOT NULL,
                once INTEGER NOT NULL,
                acknowledged INTEGER
            ) WITHOUT ROWID;
INSERT INTO "deliveries" VALUES('k',1763700000000,0,NULL);
CREATE TABLE inbox (
                seq INTEGER PRIMARY KEY AUTOINCREMENT,
                chat_id INTEGER NOT NULL,
                at INTEGER NOT NULL,
                content_type TEXT NOT NULL,
                body BLOB NOT NULL
            );
INSERT INTO "inbox" VALUES(1,7,1763700000000,'application/x-www-form-urlencoded',X'636861745F69643D3726747970653D7465787426646174613D68692666726F6D3D2537422532326964253232253341312532432532326E616D6525323225334125323253617261253232253744');
CREATE TABLE intents (
                n INTEGER PRIMARY KEY AUTOINCREMENT,
                id TEXT NOT NULL UNIQUE,
                recipient TEXT NOT NULL,
                kind TEXT NOT NULL,
                at INTEGER NOT NULL,
                detail TEXT NOT NULL
            );
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('base_url','http://127.0.0.1:9');
INSERT INTO "meta" VALUES('clean','1763700000000');
INSERT INTO "meta" VALUES('digest','f3b7bfe52ffbead75f82819ff07a6ba0f716eafc5e691efdc76e6f232fec3efd');
INSERT INTO "meta" VALUES('min_reader','1');
INSERT INTO "meta" VALUES('min_reader_release','0.1.0');
INSERT INTO "meta" VALUES('salt','f6c6266521cedf0371d6da4f9ff9dd3b');
INSERT INTO "meta" VALUES('schema','1');
CREATE TABLE raw (
                n INTEGER PRIMARY KEY AUTOINCREMENT,
                at INTEGER NOT NULL,
                reason TEXT NOT NULL,
                content_type TEXT NOT NULL,
                body BLOB NOT NULL
            );
CREATE TABLE senders (
                chat_id INTEGER PRIMARY KEY,
                first_sender INTEGER NOT NULL,
                several INTEGER NOT NULL DEFAULT 0
            );
INSERT INTO "senders" VALUES(7,1,0);
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX inbox_chat ON inbox (chat_id, seq);
CREATE INDEX deliveries_age ON deliveries (once, at);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('inbox',1);
COMMIT;
