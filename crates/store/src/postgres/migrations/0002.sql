-- Quiet hours of a session's own, as JSON.
ALTER TABLE reveille.sessions ADD COLUMN quiet text;
-- Those who have something to be told, without a look at the messages, which an unmeasured table makes costly.
CREATE INDEX sessions_pending ON reveille.sessions (server, num) WHERE pending_messages > 0;
-- Sessions in which nothing lives, by when they were last used: what retention looks for, however many others only wait.
CREATE INDEX sessions_idle ON reveille.sessions (server, active_at)
    WHERE live_timers = 0 AND live_reminders = 0 AND pending_messages = 0;
-- And closed ones that were never told something.
CREATE INDEX sessions_untold ON reveille.sessions (server, active_at) WHERE state = 'closed' AND pending_messages > 0;
-- Every commit paid for it, and while a table is small a session's name may be looked for in it: a plan that is kept.
DROP INDEX reveille.sessions_active;
-- What retention looks for instead.
CREATE INDEX conversation_at ON reveille.conversation (server, at);

-- 1: it waits for a condition.
ALTER TABLE reveille.items ADD COLUMN awaits bigint;
CREATE INDEX items_awaits ON reveille.items (server, seq) WHERE awaits IS NOT NULL;

-- Events that are rare among many. Not of what most entries are: every creation would pay for that.
CREATE INDEX history_event ON reveille.history (server, event, seq) WHERE event <> 'timer.created';
