PRAGMA application_id = 1953655138;
BEGIN TRANSACTION;
CREATE TABLE alarms (
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        text TEXT NOT NULL,
        first INTEGER NOT NULL,
        last INTEGER NOT NULL,
        count INTEGER NOT NULL,
        told INTEGER,
        acknowledged INTEGER,
        PRIMARY KEY (kind, key)
    ) WITHOUT ROWID;
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
                started_at INTEGER NOT NULL,
                updated_at INTEGER NOT NULL,
                ended_at INTEGER
            );
INSERT INTO "conversations" VALUES(1,7,'make.order','conversation','1',NULL,NULL,1,0,NULL,NULL,NULL,0,1795426887181,1795426887524,NULL);
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
INSERT INTO "deliveries" VALUES('event:7:85b1c4e591ec72aa0fea185ec709d174643dc1c7c918a68fb1403717c90cbb96',1795426887520,0,NULL);
INSERT INTO "deliveries" VALUES('event:7:e16463246df4383ed66f2521464e5a5232ceda0b2a0e4b1f321942e0cc2dd754',1795426887181,0,NULL);
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
            , begun TEXT);
CREATE TABLE journal (
                conversation INTEGER NOT NULL,
                n INTEGER NOT NULL,
                size INTEGER NOT NULL,
                records TEXT NOT NULL,
                PRIMARY KEY (conversation, n)
            ) WITHOUT ROWID;
INSERT INTO "journal" VALUES(1,0,1,'["S",1795426887181,"make.order",[{"class":["triobot.Message",{"chat_id":7,"content":"hi","sender":{"class":["triobot.Sender",{"id":1,"name":"Sara","username":""}]}}]},1795426887181,null],"e92aee422ce0aff0bba9f16de8fdb10b",1]');
INSERT INTO "journal" VALUES(1,1,1,'["D",1795426887219,1,"send sendMessage","167a054537af046a -",{"sent":[7,1]}]');
INSERT INTO "journal" VALUES(1,2,1,'["D",1795426887520,2,"receive","",{"said":[7,"Sara",1,"Sara","",-1,1795426887520]},-1]');
INSERT INTO "journal" VALUES(1,3,1,'["D",1795426887524,3,"send sendMessage","1b8640e099620d1e -",{"sent":[7,2]}]');
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('alive','1795426886817');
INSERT INTO "meta" VALUES('base_url','http://127.0.0.1:9');
INSERT INTO "meta" VALUES('boot','1');
INSERT INTO "meta" VALUES('clean','1795426888075');
INSERT INTO "meta" VALUES('digest','a73d1b5d6b72ec70cf32f9b75c39e9bb72d0094e87dd39221ae734e88276deb8');
INSERT INTO "meta" VALUES('machine','00000000-0000-0000-0000-000000000000');
INSERT INTO "meta" VALUES('min_reader','10');
INSERT INTO "meta" VALUES('min_reader_release','0.1.0');
INSERT INTO "meta" VALUES('opened_at','1795426886817');
INSERT INTO "meta" VALUES('run','2885969314829657940');
INSERT INTO "meta" VALUES('salt','c39c3b6a5fa615ad86f27164be2b4ff0');
INSERT INTO "meta" VALUES('schema','10');
INSERT INTO "meta" VALUES('unclean','0');
CREATE TABLE payment_moves (
        id TEXT NOT NULL,
        revision INTEGER NOT NULL,
        at INTEGER NOT NULL,
        fact TEXT NOT NULL,
        state TEXT NOT NULL,
        PRIMARY KEY (id, revision)
    ) WITHOUT ROWID;
CREATE TABLE payments (
        id TEXT PRIMARY KEY,
        revision INTEGER NOT NULL,
        state TEXT NOT NULL,
        grouped TEXT NOT NULL,
        chat_id INTEGER NOT NULL,
        amount INTEGER NOT NULL,
        made_at INTEGER NOT NULL,
        record TEXT NOT NULL,
        invoice_id TEXT,
        due_at INTEGER,
        urgent INTEGER,
        captured INTEGER,
        captured_at INTEGER
    ) WITHOUT ROWID;
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
INSERT INTO "settings" VALUES('clock_jumped','0 1795426888062');
INSERT INTO "settings" VALUES('log_key','4139c9c6501e3dff0b5fd216a5968ac8');
INSERT INTO "settings" VALUES('payments_watched','1795426887206 0');
INSERT INTO "settings" VALUES('webhook_secret','Ww4eRKHq0RAWkoxo7nhJ5oqOtsYqXGgW');
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
CREATE UNIQUE INDEX payments_invoice ON payments (invoice_id) WHERE invoice_id IS NOT NULL;
CREATE INDEX payments_urgent ON payments (urgent, due_at) WHERE urgent IS NOT NULL AND due_at IS NOT NULL;
CREATE INDEX payments_due ON payments (due_at) WHERE urgent IS NULL AND due_at IS NOT NULL;
CREATE INDEX payments_state ON payments (state, id);
CREATE INDEX payments_chat ON payments (chat_id, id);
CREATE INDEX payments_captured ON payments (captured_at) WHERE captured_at IS NOT NULL;
CREATE INDEX alarms_open ON alarms (first) WHERE acknowledged IS NULL;
CREATE INDEX effects_unknown ON effects (conversation) WHERE result IS NULL;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('inbox',1);
COMMIT;
