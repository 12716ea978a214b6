-- Times are milliseconds since 1970, UTC. `server` and `session` are numbers of rows in those tables; there are no
-- foreign keys, since every write was decided as a whole. One row of `servers` is one logical Reveille; several may share
-- a database.
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE servers (num INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);

-- `version` fences every write to anything in the session. `last_history` is its newest entry in `history`.
CREATE TABLE sessions (
    num INTEGER PRIMARY KEY,
    server INTEGER NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    state TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    active_at INTEGER NOT NULL,
    live_timers INTEGER NOT NULL,
    live_reminders INTEGER NOT NULL,
    pending_messages INTEGER NOT NULL,
    last_history INTEGER NOT NULL,
    client TEXT,
    cwd TEXT,
    agent TEXT,
    UNIQUE (server, name)
);

-- Everything that has a deadline: timers, reminders, session timers, calls to be made. `body` is JSON; the other columns are what the queries need of it.
CREATE TABLE items (
    seq INTEGER PRIMARY KEY,
    server INTEGER NOT NULL,
    session INTEGER NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    due INTEGER,
    ended INTEGER,
    request_key TEXT,
    request_print TEXT,
    body TEXT NOT NULL
);
CREATE UNIQUE INDEX items_id ON items (server, id);
-- With the id, so that the next deadlines are read from the index alone.
CREATE INDEX items_due ON items (server, due, id) WHERE due IS NOT NULL;
CREATE INDEX items_session ON items (session, ended);
CREATE INDEX items_ended ON items (server, ended) WHERE ended IS NOT NULL;
CREATE UNIQUE INDEX items_request ON items (session, request_key) WHERE request_key IS NOT NULL;

-- The inbox. Undelivered rows wait; `lease` is the right to deliver them until `leased_until`. From `expires_at` on they
-- are not to be told any more.
CREATE TABLE messages (
    seq INTEGER PRIMARY KEY,
    server INTEGER NOT NULL,
    session INTEGER NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    source TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    lease TEXT,
    leased_until INTEGER,
    delivered_at INTEGER,
    channel TEXT,
    expires_at INTEGER
);
CREATE INDEX messages_pending ON messages (session) WHERE delivered_at IS NULL;
CREATE INDEX messages_delivered ON messages (server, delivered_at) WHERE delivered_at IS NOT NULL;

-- What was said in the sessions of agents, in order. `body` is JSON.
CREATE TABLE conversation (
    seq INTEGER PRIMARY KEY,
    server INTEGER NOT NULL,
    session INTEGER NOT NULL,
    at INTEGER NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX conversation_session ON conversation (session, seq);

-- Agents that came by the API; `name` is tenant:chatbot, `body` their configuration as JSON.
CREATE TABLE agents (
    server INTEGER NOT NULL,
    name TEXT NOT NULL,
    changed_at INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (server, name)
) WITHOUT ROWID;

-- One row per change; `seq` is also the event id that clients resume from, so the newest row is never removed. `prev` is
-- the session's entry before: a session's history is read by following it, which costs no index on every change.
CREATE TABLE history (
    seq INTEGER PRIMARY KEY,
    server INTEGER NOT NULL,
    session INTEGER NOT NULL,
    prev INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    event TEXT NOT NULL,
    data TEXT
);

CREATE TABLE tallies (
    server INTEGER NOT NULL,
    name TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (server, name)
) WITHOUT ROWID;

-- The same by the hour (the instant it began), for what happened; not for what there is now.
CREATE TABLE hours (
    server INTEGER NOT NULL,
    hour INTEGER NOT NULL,
    name TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (server, hour, name)
) WITHOUT ROWID;
