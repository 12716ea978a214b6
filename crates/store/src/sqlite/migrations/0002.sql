-- Quiet hours of a session's own, as JSON.
ALTER TABLE sessions ADD COLUMN quiet TEXT;

-- 1: it waits for a condition.
ALTER TABLE items ADD COLUMN awaits INTEGER;
CREATE INDEX items_awaits ON items (server, seq) WHERE awaits IS NOT NULL;
