PRAGMA application_id = 1953655138;
BEGIN TRANSACTION;
CREATE TABLE broadcasts (
        n INTEGER PRIMARY KEY AUTOINCREMENT,
        key TEXT NOT NULL UNIQUE,
        at INTEGER NOT NULL,
        state TEXT NOT NULL,
        content TEXT NOT NULL,
        meant INTEGER NOT NULL DEFAULT 0,
        last INTEGER NOT NULL DEFAULT 0,
        total INTEGER NOT NULL DEFAULT 0,
        sent INTEGER NOT NULL DEFAULT 0,
        gone INTEGER NOT NULL DEFAULT 0,
        failed INTEGER NOT NULL DEFAULT 0,
        unknown INTEGER NOT NULL DEFAULT 0
    );
CREATE TABLE conversations (
                id INTEGER PRIMARY KEY,
                chat_id INTEGER NOT NULL,
                route TEXT NOT NULL,
                kind TEXT NOT NULL,
                version TEXT NOT NULL,
                sender_id INTEGER,
                key TEXT,
                run INTEGER NOT NULL DEFAULT 1,
                unfinished INTEGER NOT NULL,
                wake_at INTEGER,
                parked TEXT,
                error TEXT,
                in_hand INTEGER NOT NULL DEFAULT 0,
                epoch INTEGER NOT NULL,
                started_at INTEGER NOT NULL,
                updated_at INTEGER NOT NULL,
                ended_at INTEGER
            );
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
INSERT INTO "deliveries" VALUES('event:7:85b1c4e591ec72aa0fea185ec709d174643dc1c7c918a68fb1403717c90cbb96',1795426941104,0,NULL);
INSERT INTO "deliveries" VALUES('event:7:e16463246df4383ed66f2521464e5a5232ceda0b2a0e4b1f321942e0cc2dd754',1795426940772,0,NULL);
CREATE TABLE effects (
                conversation INTEGER NOT NULL,
                operation TEXT NOT NULL,
                intended_at INTEGER,
                intent TEXT,
                resulted_at INTEGER,
                result TEXT,
                PRIMARY KEY (conversation, operation)
            ) WITHOUT ROWID;
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
CREATE TABLE journal (
                conversation INTEGER NOT NULL,
                n INTEGER NOT NULL,
                size INTEGER NOT NULL,
                records TEXT NOT NULL,
                PRIMARY KEY (conversation, n)
            ) WITHOUT ROWID;
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('base_url','http://127.0.0.1:9');
INSERT INTO "meta" VALUES('boot','1');
INSERT INTO "meta" VALUES('clean','1795426941631');
INSERT INTO "meta" VALUES('digest','6b51660d0c6b180e45e2571bda595e16cec8694f7c3e9599a10aa9bdbad7c1e7');
INSERT INTO "meta" VALUES('min_reader','3');
INSERT INTO "meta" VALUES('min_reader_release','0.1.0');
INSERT INTO "meta" VALUES('opened_at','1795426940489');
INSERT INTO "meta" VALUES('salt','36c8b66a6546ad68b6986ea7a6cfbdc3');
INSERT INTO "meta" VALUES('schema','4');
INSERT INTO "meta" VALUES('unclean','0');
CREATE TABLE raw (
                n INTEGER PRIMARY KEY AUTOINCREMENT,
                at INTEGER NOT NULL,
                reason TEXT NOT NULL,
                content_type TEXT NOT NULL,
                body BLOB NOT NULL
            );
CREATE TABLE receivers (
        n INTEGER NOT NULL,
        position INTEGER NOT NULL,
        chat_id INTEGER NOT NULL,
        gone INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (n, position)
    ) WITHOUT ROWID;
CREATE TABLE senders (
                chat_id INTEGER PRIMARY KEY,
                first_sender INTEGER NOT NULL,
                several INTEGER NOT NULL DEFAULT 0
            );
INSERT INTO "senders" VALUES(7,1,0);
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "settings" VALUES('webhook_secret','m2cL9PX80ma4sJ3HGJECOXl21hM1xRMX');
CREATE INDEX inbox_chat ON inbox (chat_id, seq);
CREATE INDEX deliveries_age ON deliveries (once, at);
CREATE INDEX data_key ON data (key, chat_id);
CREATE INDEX conversations_chat ON conversations (chat_id) WHERE ended_at IS NULL;
CREATE INDEX conversations_unfinished ON conversations (id)
                WHERE unfinished = 1 AND parked IS NULL AND ended_at IS NULL;
CREATE INDEX conversations_due ON conversations (wake_at)
                WHERE wake_at IS NOT NULL AND parked IS NULL AND ended_at IS NULL;
CREATE INDEX conversations_parked ON conversations (id)
                WHERE parked IS NOT NULL AND ended_at IS NULL;
CREATE INDEX conversations_ended ON conversations (ended_at, chat_id)
                WHERE ended_at IS NOT NULL;
CREATE UNIQUE INDEX receivers_chat ON receivers (n, chat_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('inbox',2);
COMMIT;
