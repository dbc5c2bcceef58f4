-- The twin of sliding_window.c. The text of a state: "s", prev and curr in 4
-- bytes each, the window in 8.
local FORMAT, BYTES, LETTER = '>BI4I4I8', 17, 115
local empty = {prev = 0, curr = 0, window = 0}

local function read(text)
    if #text ~= BYTES then
        return nil
    end
    local letter, prev, curr, window = struct.unpack(FORMAT, text)
    if letter == LETTER and prev <= COUNT_MAX and curr <= COUNT_MAX and window <= NUMBER_MAX then
        return {prev = prev, curr = curr, window = window}
    end
end

local function write(state)
    return struct.pack(FORMAT, LETTER, state.prev, state.curr, state.window)
end

local function align(limit, state, now)
    local per_us = limit.per * limit.tick_us
    if state.window * per_us - now > CLOCK_SLACK_US then
        return {prev = state.prev, curr = state.curr, window = floor(now / per_us)}
    end
end

-- The two counts brought to the window that `now` is in, and the ticks into it.
local function roll(limit, state, now)
    local per, window = limit.per, state.window
    local ticks = floor(now / limit.tick_us)
    local into = ticks - window * per
    if into < 0 then
        return state.prev, state.curr, window, 0
    elseif into < per then
        return state.prev, state.curr, window, into
    end
    local current = floor(ticks / per)
    return current == window + 1 and state.curr or 0, 0, current, ticks - current * per
end

-- The tick of a window from which `weighed x (W - tick) <= room x W` holds.
local function tick_of_room(weighed, room, per)
    return weighed <= room and 0 or per - floor(room * per / weighed)
end

local function ticks_to_retry(limit, prev, curr, into, cost)
    local per, room = limit.per, limit.size - curr - cost
    if room >= 0 then
        return tick_of_room(prev, room, per) - into
    end
    return per - into + tick_of_room(curr, limit.size - cost, per)
end

local function take(limit, state, now, cost)
    local per, per_us = limit.per, limit.per * limit.tick_us
    local prev, curr, window, into = roll(limit, state, now)
    local used, size = prev * (per - into) + curr * per, limit.size * per
    local answer = {is_allowed = cost == 0 or used + cost * per <= size, retry_us = 0, delay_us = 0}
    if not answer.is_allowed then
        local since_tick_us = now - (window * per_us + into * limit.tick_us)
        answer.retry_us = cost > limit.size and NEVER
            or ticks_to_retry(limit, prev, curr, into, cost) * limit.tick_us - since_tick_us
    elseif cost > 0 then
        curr = curr + cost
        used = used + cost * per
        answer.state = {prev = prev, curr = curr, window = window}
        answer.place = window
    end
    answer.remaining = size > used and floor((size - used) / per) or 0
    answer.window_end_us = (window + 1) * per_us - now
    answer.reset_us = curr > 0 and answer.window_end_us + per_us
        or prev > 0 and answer.window_end_us
        or 0
    return answer
end

local function settle(limit, state, now, correction)
    local per = limit.per
    local prev, curr, window, into = roll(limit, state, now)
    local used = prev * (per - into) + curr * per
    local place = correction.place or window
    local is_curr = place == window
    if not is_curr and place ~= window - 1 then
        return nil
    end
    local weight = is_curr and per or per - into
    -- rounded towards zero, as C does; no room is no room
    local room = floor(max(2 * limit.size * per - used, 0) / weight)
    local change = bound_change(is_curr and curr or prev, correction.truth - correction.amount, room)
    if change == 0 then
        return nil
    end
    if is_curr then
        return {prev = prev, curr = curr + change, window = window}
    end
    return {prev = prev + change, curr = curr, window = window}
end

return {
    empty = empty, bytes = BYTES, read = read, write = write, align = align, take = take,
    settle = settle,
}
