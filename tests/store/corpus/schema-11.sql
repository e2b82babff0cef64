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
INSERT INTO "conversations" VALUES(1,7,'make.order','conversation','1',NULL,NULL,1,0,NULL,NULL,NULL,0,1795881006202,1795881006207,NULL);
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
INSERT INTO "deliveries" VALUES('event:7:7be2dec3a56501a8eadea4af6bdcf7817cec20452b0708063dddbb325a6ef2f3',1795881006201,0,NULL);
INSERT INTO "deliveries" VALUES('event:7:92b3918f024323bb54c4155fd33802e9cb8b36a41d9d24444209e6793e2230fe',1795881006205,0,NULL);
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
INSERT INTO "journal" VALUES(1,0,1,'["S",1795881006202,"make.order",[{"class":["triobot.Message",{"chat_id":7,"content":"hi","sender":{"class":["triobot.Sender",{"id":1000007,"name":"Somebody","username":"somebody"}]}}]},1795881006201,null],"1f2b7540b7baa37d151d3b55b6cddec3",1]');
INSERT INTO "journal" VALUES(1,1,1,'["D",1795881006205,1,"send sendMessage","167a054537af046a -",{"sent":[7,1]}]');
INSERT INTO "journal" VALUES(1,2,1,'["D",1795881006206,2,"receive","",{"said":[7,"Sara",1000007,"Somebody","somebody",2,1795881006205]},2]');
INSERT INTO "journal" VALUES(1,3,1,'["D",1795881006207,3,"send sendMessage","1b8640e099620d1e -",{"sent":[7,2]}]');
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('alive','1795881006160');
INSERT INTO "meta" VALUES('base_url','http://127.0.0.1:9');
INSERT INTO "meta" VALUES('boot','1');
INSERT INTO "meta" VALUES('clean','1795881006512');
INSERT INTO "meta" VALUES('digest','7379fbc46f1e7e262fc629ce4baf10ba9dfe6fc4fa889beed7d13adde6f4e09d');
INSERT INTO "meta" VALUES('machine','00000000-0000-0000-0000-000000000000');
INSERT INTO "meta" VALUES('min_reader','11');
INSERT INTO "meta" VALUES('min_reader_release','0.1.0');
INSERT INTO "meta" VALUES('opened_at','1795881006160');
INSERT INTO "meta" VALUES('run','3509216157849096059');
INSERT INTO "meta" VALUES('salt','48ff19219d37087220350d792ac43fda');
INSERT INTO "meta" VALUES('schema','11');
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
INSERT INTO "senders" VALUES(7,1000007,0);
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "settings" VALUES('clock_jumped','0 1795881006510');
INSERT INTO "settings" VALUES('log_key','2b7b46497608b7868cd8a8ed8c78570c');
INSERT INTO "settings" VALUES('payments_watched','1795881006202 0');
INSERT INTO "settings" VALUES('webhook_secret','ts9yd3nFykq9hHvmdCxVPCPR21fQLXXN');
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
INSERT INTO "sqlite_sequence" VALUES('inbox',2);
COMMIT;
