PRAGMA application_id = 1953655138;
BEGIN TRANSACTION;
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
INSERT INTO "deliveries" VALUES('event:7:85b1c4e591ec72aa0fea185ec709d174643dc1c7c918a68fb1403717c90cbb96',1795426906720,0,NULL);
INSERT INTO "deliveries" VALUES('event:7:e16463246df4383ed66f2521464e5a5232ceda0b2a0e4b1f321942e0cc2dd754',1795426906389,0,NULL);
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
INSERT INTO "meta" VALUES('clean','1795426907244');
INSERT INTO "meta" VALUES('digest','620b5c6ef03b52e0e3d9cb8cb0300990ad9c238bb5e0516cca9a3ee2aaf59f3a');
INSERT INTO "meta" VALUES('min_reader','3');
INSERT INTO "meta" VALUES('min_reader_release','0.1.0');
INSERT INTO "meta" VALUES('opened_at','1795426906093');
INSERT INTO "meta" VALUES('salt','3e4bbc02515d626268948e24ecb36066');
INSERT INTO "meta" VALUES('schema','3');
INSERT INTO "meta" VALUES('unclean','0');
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
INSERT INTO "settings" VALUES('webhook_secret','mUjwaJ2LK7WrUAe8ypNW4AU0YfygBJJl');
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
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('inbox',2);
COMMIT;
