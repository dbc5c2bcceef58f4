-- How a counter is kept: one key, a string, with a time to live that is set with it: the
-- text of the state and, where hosts hold some of it, their records (records.lua). Whoever
-- opens a counter ends those that are due.
--
-- A key is never trusted: what is no state of the algorithm counts as an untouched counter
-- and is replaced.

local ALLOWED, CHANGED, REPAIRED_VALUE, REPAIRED_TTL = 1, 2, 4, 8 -- flags of a reply
local CALENDAR = 128 -- flag of a limit
local RECORD_BYTES = 32 -- a state without records is shorter, but for a log's

local algorithms = {}

-- A counter of the limit whose record is at `at` (script.h); then its flags, and where the
-- record goes on. stored: of the key; false: it holds no string.
local function counter_open(stored, at)
    local number, flags, requests, size, per, tick_us, max_delay, next_at =
        struct.unpack('>BBI4I4I4I4I4', ARGV[1], at)
    local kind = algorithms[number]
    if not kind then
        kind = algorithm(number)
        algorithms[number] = kind
    end
    local counter = {requests, size, per, tick_us, kind, stored, 0, false}
    if max_delay > 0 then
        counter[MAX_DELAY] = max_delay
    end
    if flags >= CALENDAR then
        flags = flags - CALENDAR
        counter[STARTS] = {struct.unpack('>I8I8I8', ARGV[1], next_at)}
        next_at = counter[STARTS][4]
    end
    if stored and #stored > RECORD_BYTES and kind.format then
        records().open(counter)
    end
    return counter, flags, next_at
end

-- Leave the key as it should be, with the answer that the counter's state has. Answers what
-- was amiss.
local function counter_close(key, stored, counter, answer)
    local text, us = counter[TEXT], answer[KEPT_US] or answer[RESET_US]
    us = us == NEVER and WAIT_US_MAX or us
    if text and counter[RECORDS] and counter[RECORDS] ~= '' then
        text = text .. counter[RECORDS]
        us = math.max(us, records().last_end(counter[RECORDS]) - now)
    end
    local ttl = math.ceil(us / 1000) + KEPT_MS
    if text == stored then
        if text and not answer[IS_ALLOWED] then
            -- A limit that was lowered is slower to be as if untouched than it was when the
            -- key was written; and a key without any time to live was not written here.
            local held = redis.call('PTTL', key)
            if held < ttl - KEPT_MS then
                redis.call('PEXPIRE', key, ttl)
                return held < 0 and REPAIRED_TTL or 0
            end
        end
    elseif not text then
        redis.call('DEL', key)
    elseif stored then
        redis.call('SET', key, text, 'PX', ttl)
    elseif not redis.call('SET', key, text, 'PX', ttl, 'NX') then
        counter[IS_GARBAGE] = true -- it holds something, and that is no string
        redis.call('SET', key, text, 'PX', ttl)
    end
    return counter[IS_GARBAGE] and REPAIRED_VALUE or 0
end
