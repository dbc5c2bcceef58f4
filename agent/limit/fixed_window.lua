-- The twin of fixed_window.c. The text of a state: "f", the count in 4 bytes, the
-- window in 8.
--
-- limit.starts, of a window that follows the calendar: when it starts and the next two do,
-- in seconds of the wall clock, which are their numbers too.
local FORMAT, BYTES, LETTER = '>BI4I8', 13, 102
local empty = {count = 0, window = 0}

local function read(text)
    if #text ~= BYTES then
        return nil
    end
    local letter, count, window = struct.unpack(FORMAT, text)
    if letter == LETTER and count <= COUNT_MAX and window <= NUMBER_MAX then
        return {count = count, window = window}
    end
end

local function write(state)
    return struct.pack(FORMAT, LETTER, state.count, state.window)
end

-- The window of a moment and its end; nil where that is not known.
local function window_at(limit, us)
    local starts = limit.starts
    if not starts then
        local per_us = limit.per * limit.tick_us
        local window = floor(us / per_us)
        return window, (window + 1) * per_us
    elseif us < starts[2] * 1e6 then
        return starts[1], starts[2] * 1e6
    end
    return starts[2], us < starts[3] * 1e6 and starts[3] * 1e6 or nil
end

local function start_us(limit, window)
    return window * (limit.starts and 1e6 or limit.per * limit.tick_us)
end

local function align(limit, state, now)
    local window = window_at(limit, now)
    if state.window > window and start_us(limit, state.window) - now > CLOCK_SLACK_US then
        return {count = state.count, window = window}
    end
end

-- The window that counts, its end and what is used of it. One a moment before its start is
-- taken to be at its start.
local function current(limit, state, now)
    local window, end_us = window_at(limit, now)
    if state.window > window then
        window, end_us = window_at(limit, start_us(limit, state.window))
    end
    return window, end_us, state.window >= window and state.count or 0
end

local function take(limit, state, now, cost)
    local window, end_us, used = current(limit, state, now)
    -- The last window that is known goes on, and is said to end in a second.
    local until_end_us = end_us and end_us - now or 1e6
    local answer = {
        is_allowed = cost == 0 or used + cost <= limit.size,
        retry_us = 0,
        window_end_us = until_end_us,
        delay_us = 0,
        kept_us = not end_us and limit.per * limit.tick_us or nil,
    }
    if not answer.is_allowed then
        answer.retry_us = cost > limit.size and NEVER or until_end_us
    elseif cost > 0 then
        used = used + cost
        answer.state = {count = used, window = window}
        answer.place = window
    end
    answer.remaining = max(limit.size - used, 0)
    answer.reset_us = used > 0 and until_end_us or 0
    return answer
end

local function settle(limit, state, now, correction)
    local window, _, used = current(limit, state, now)
    local change = bound_change(used, correction.truth - correction.amount, 2 * limit.size - used)
    if (correction.place or window) ~= window or change == 0 then
        return nil
    end
    return {count = used + change, window = window}
end

return {
    empty = empty, bytes = BYTES, read = read, write = write, align = align, take = take,
    settle = settle,
}
