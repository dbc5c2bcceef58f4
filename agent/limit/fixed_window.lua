-- The twin of fixed_window.c. The text of a state: "f", the count in 4 bytes, the
-- window in 8.
--
-- counter[STARTS], of a window that follows the calendar: when it starts and the next two do,
-- in seconds of the wall clock, which are their numbers too.
local FORMAT, BYTES, LETTER = '>BI4I8', 13, 102

-- The window of a moment and its end; nil where that is not known.
local function window_at(counter, us)
    local starts = counter[STARTS]
    if not starts then
        local per_us = counter[PER] * counter[TICK_US]
        local window = math.floor(us / per_us)
        return window, (window + 1) * per_us
    elseif us < starts[2] * 1e6 then
        return starts[1], starts[2] * 1e6
    end
    return starts[2], us < starts[3] * 1e6 and starts[3] * 1e6 or nil
end

-- The window that counts, its end and what is used of it. One a moment before its start is
-- taken to be at its start.
local function read(counter)
    local text, window, end_us = counter[TEXT], window_at(counter, now)
    if not text then
        return window, end_us, 0
    end
    local letter, count, counted
    if #text == BYTES then
        letter, count, counted = struct.unpack(FORMAT, text)
    end
    if letter ~= LETTER or count > COUNT_MAX or counted > NUMBER_MAX then
        counter[TEXT], counter[IS_GARBAGE] = false, true
        return window, end_us, 0
    elseif counted <= window then
        return window, end_us, counted == window and count or 0
    end
    local start_us = counted * (counter[STARTS] and 1e6 or counter[PER] * counter[TICK_US])
    if start_us - now > CLOCK_SLACK_US then
        counter[TEXT] = struct.pack(FORMAT, LETTER, count, window)
        return window, end_us, count
    end
    window, end_us = window_at(counter, start_us)
    return window, end_us, counted >= window and count or 0
end

local function take(counter, cost)
    local window, end_us, used = read(counter)
    -- The last window that is known goes on, and is said to end in a second.
    local until_end_us = end_us and end_us - now or 1e6
    local is_allowed = cost == 0 or used + cost <= counter[SIZE]
    local retry_us, text, place = 0, false, 0
    if not is_allowed then
        retry_us = cost > counter[SIZE] and NEVER or until_end_us
    elseif cost > 0 then
        used = used + cost
        text, place = struct.pack(FORMAT, LETTER, used, window), window
    end
    local remaining = math.max(counter[SIZE] - used, 0)
    local reset_us = used > 0 and until_end_us or 0
    local kept_us = not end_us and counter[PER] * counter[TICK_US] or nil
    return {is_allowed, text, remaining, reset_us, retry_us, until_end_us, 0, place, kept_us}
end

local function settle(counter, correction)
    local window, _, used = read(counter)
    local room = math.max(2 * counter[SIZE] - used, 0)
    local change = correction.truth - correction.amount
    change = math.max(math.min(change, room, COUNT_MAX - used), -used)
    if (correction.place or window) ~= window or change == 0 then
        return nil
    end
    return struct.pack(FORMAT, LETTER, used + change, window)
end

return {format = FORMAT, letter = LETTER, read = read, take = take, settle = settle}
