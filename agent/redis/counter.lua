-- How a counter is kept: one key, a string, with a time to live that is set with it: the
-- text of the state and, where hosts hold some of it, their records (records.lua). Whoever
-- opens a counter ends those that are due.
--
-- A key is never trusted: what is no state of the algorithm counts as an untouched counter
-- and is replaced.

local CHANGED, REPAIRED_VALUE, REPAIRED_TTL = 2, 4, 8 -- flags of a reply
local CALENDAR = 128 -- flag of a limit
local now = clock_now()

-- The limit of a record of the arguments (script.h), its algorithm, its flags, and where the
-- record goes on.
local function read_limit(at)
    local kind, flags, requests, size, per, tick_us, max_delay, next_at =
        struct.unpack('>BBI4I4I4I4I4', ARGV[1], at)
    local starts
    if flags >= CALENDAR then
        flags = flags - CALENDAR
        starts = {struct.unpack('>I8I8I8', ARGV[1], next_at)}
        next_at = starts[4]
    end
    local limit = {
        requests = requests, size = size, per = per, tick_us = tick_us,
        max_delay = max_delay, starts = starts,
    }
    return limit, algorithm(kind), flags, next_at
end

-- text: of the key; false: it holds no string
local function counter_open(key, text, limit, kind)
    local state, held = text and kind.read(text), ''
    if text and not state and kind.bytes then
        state, held = records().split(text, kind)
    end
    local aligned = state and kind.align(limit, state, now)
    local counter = {
        key = key,
        text = text,
        limit = limit,
        kind = kind,
        state = aligned or state or kind.empty,
        records = held or '',
        is_changed = aligned ~= nil and aligned ~= false,
        is_garbage = text and not state,
        flags = 0,
    }
    if counter.records ~= '' then
        records().tend(counter, now)
    end
    return counter
end

-- For how long the key of a counter that is answered so is needed.
local function ttl_ms(counter, answer)
    local us = max(answer.reset_us, answer.kept_us or 0)
    us = us == NEVER and WAIT_US_MAX or us
    if counter.records ~= '' then
        us = max(us, records().last_end(counter.records) - now)
    end
    return ceil(us / 1000) + KEPT_MS
end

local function counter_write(counter, answer)
    local key, text = counter.key, counter.kind.write(counter.state) .. counter.records
    local ttl = ttl_ms(counter, answer)
    if counter.text then
        redis.call('SET', key, text, 'PX', ttl)
    elseif not redis.call('SET', key, text, 'PX', ttl, 'NX') then
        counter.is_garbage = true -- it holds something, and that is no string
        redis.call('SET', key, text, 'PX', ttl)
    end
end

-- A limit that was lowered is slower to be as if untouched than it was when the key was
-- written; and a key without any time to live was not written here.
local function counter_keep(counter, answer)
    local ttl = ttl_ms(counter, answer)
    local held = redis.call('PTTL', counter.key)
    if held < ttl - KEPT_MS then
        redis.call('PEXPIRE', counter.key, ttl)
        counter.flags = held < 0 and REPAIRED_TTL or 0
    end
end

-- Leave the key as it should be, with the answer that the counter's state has.
local function counter_close(counter, answer)
    if counter.is_changed then
        counter_write(counter, answer)
    elseif counter.is_garbage then
        redis.call('DEL', counter.key)
    elseif counter.text and not answer.is_allowed then
        counter_keep(counter, answer)
    end
    if counter.is_garbage then
        counter.flags = REPAIRED_VALUE
    end
end
