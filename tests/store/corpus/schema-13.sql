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
INSERT INTO "conversations" VALUES(1,7,'make.order','conversation','1',NULL,NULL,1,0,NULL,NULL,NULL,0,1790003600280,1790003600284,NULL);
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
INSERT INTO "deliveries" VALUES('event:7:1b18e0aeb28b192cee2bd8b12115ff6f',1790003600282,0,NULL);
INSERT INTO "deliveries" VALUES('event:7:41d49a156ea80ad0a803a8b6eed07eae',1790003600280,0,NULL);
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
INSERT INTO "journal" VALUES(1,0,1,'["S",1790003600280,"make.order",[{"class":["triobot.Message",{"chat_id":7,"content":"hi","sender":{"class":["triobot.Sender",{"id":1000007,"name":"Somebody","username":"somebody"}]}}]},1790003600280,null],"165ebf99dbb73434304c5147e754b7a7",1]');
INSERT INTO "journal" VALUES(1,1,1,'["D",1790003600282,1,"send sendMessage","167a054537af046a -",{"sent":[7,1]}]');
INSERT INTO "journal" VALUES(1,2,1,'["D",1790003600283,2,"receive","",{"said":[7,"Sara",1000007,"Somebody","somebody",2,1790003600282]},2]');
INSERT INTO "journal" VALUES(1,3,1,'["D",1790003600284,3,"send sendMessage","1b8640e099620d1e -",{"sent":[7,2]}]');
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('alive','1790003600022');
INSERT INTO "meta" VALUES('base_url','http://127.0.0.1:9');
INSERT INTO "meta" VALUES('boot','1');
INSERT INTO "meta" VALUES('clean','1790003600287');
INSERT INTO "meta" VALUES('digest','9978d67b1523ee064511513893308d90b8e281c01ea86bcdaa82864014eeaac4');
INSERT INTO "meta" VALUES('machine','00000000-0000-0000-0000-000000000000');
INSERT INTO "meta" VALUES('min_reader','13');
INSERT INTO "meta" VALUES('min_reader_release','0.1.0');
INSERT INTO "meta" VALUES('opened_at','1790003600022');
INSERT INTO "meta" VALUES('run','894725966508917248');
INSERT INTO "meta" VALUES('salt','4a91150f66abe288973e4143fc05d6ad');
INSERT INTO "meta" VALUES('schema','13');
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
INSERT INTO "settings" VALUES('clock_jumped','0 1790003600285');
INSERT INTO "settings" VALUES('log_key','e391a6720f4451ec2e59348b742cd70a');
INSERT INTO "settings" VALUES('payments_watched','1790003600281 0');
INSERT INTO "settings" VALUES('webhook_secret','i42TjlDLdIOvFzE9Tt9-_l2jRKqVW6j4');
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
CREATE INDEX inbox_waiting ON inbox (chat_id, seq) WHERE begun IS NULL;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('inbox',2);
COMMIT;
