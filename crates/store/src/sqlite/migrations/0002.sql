-- Quiet hours of a session's own, as JSON.
ALTER TABLE sessions ADD COLUMN quiet TEXT;

-- 1: it waits for a condition.
ALTER TABLE items ADD COLUMN awaits INTEGER;
CREATE INDEX items_awaits ON items (server, seq) WHERE awaits IS NOT NULL;

-- Events that are rare among many. Not of what most entries are: every creation would pay for that.
CREATE INDEX history_event ON history (server, event) WHERE event <> 'timer.created';

-- What retention looks for, however many sessions only wait: those in which nothing lives, by when they were last used,
-- closed ones that were never told something, and what was said, by when.
CREATE INDEX sessions_idle ON sessions (server, active_at)
    WHERE live_timers = 0 AND live_reminders = 0 AND pending_messages = 0;
CREATE INDEX sessions_untold ON sessions (server, active_at) WHERE state = 'closed' AND pending_messages > 0;
CREATE INDEX conversation_at ON conversation (server, at);
