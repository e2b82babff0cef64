PRAGMA application_id = 1953655138;
BEGIN TRANSACTION;
CREATE TABLE data (
                chat_id INTEGER NOT NULL,
                key TEXT NOT NULL,
                value TEXT NOT NULL,
                PRIMARY KEY (chat_id, key)
            ) WITHOUT ROWID;
CREATE TABLE deliveries (
                key TEXT PRIMARY KEY,
                at INTEGER NOT NULL,
                once INTEGER NOT NULL,
                acknowledged INTEGER
            ) WITHOUT ROWID;
INSERT INTO "deliveries" VALUES('event:7:85b1c4e591ec72aa0fea185ec709d174643dc1c7c918a68fb1403717c90cbb96',1795426833851,0,NULL);
INSERT INTO "deliveries" VALUES('event:7:e16463246df4383ed66f2521464e5a5232ceda0b2a0e4b1f321942e0cc2dd754',1795426833510,0,NULL);
CREATE TABLE inbox (
                seq INTEGER PRIMARY KEY AUTOINCREMENT,
                chat_id INTEGER NOT NULL,
                at INTEGER NOT NULL,
                content_type TEXT NOT NULL,
                body BLOB NOT NULL
            );
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
INSERT INTO "meta" VALUES('clean','1795426834416');
INSERT INTO "meta" VALUES('digest','60a5c5c7146205ba7924e3da36034e6cbaea25622746c19172d17461e731b54f');
INSERT INTO "meta" VALUES('min_reader','1');
INSERT INTO "meta" VALUES('min_reader_release','0.1.0');
INSERT INTO "meta" VALUES('salt','731eabcb3c78bf976a42e0cdaf6f7f91');
INSERT INTO "meta" VALUES('schema','2');
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
INSERT INTO "settings" VALUES('webhook_secret','S4n-XkSSUrF9mklUJ6J-2myfvNNy6OEs');
CREATE INDEX inbox_chat ON inbox (chat_id, seq);
CREATE INDEX deliveries_age ON deliveries (once, at);
CREATE INDEX data_key ON data (key, chat_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('inbox',2);
COMMIT;
