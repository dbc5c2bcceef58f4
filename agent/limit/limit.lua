-- What the algorithms have in common: the twin of limit.h.
--
-- All numbers are whole and below 2^53, so sums, products, floor(a / b) and ceil(a / b) are
-- exact in doubles.
--
-- An algorithm is a table of functions on (limit, state), both tables; a state is never
-- changed, a new one is answered:
--   empty                          the state of an untouched counter
--   read(text)                     a state; nil: that is none
--   write(state)                   its text
--   align(limit, state, now)       a state whose stamp is put right; nil: it was right
--   take(limit, state, now, cost)  an answer; where charged with the state after it, and
--                                  the place where the charge stands in it
--   settle(limit, state, now, correction)  a state; nil: nothing changes
-- and where hosts may hold some of a counter (redis/records.lua):
--   bytes                          how long a text is
--   a correction that only adds    may be without a place: it is of now
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max

-- As enum limit_algorithm numbers them; algorithm(number) is the one.
local TOKEN_BUCKET = 1

local NEVER = -1
local WAIT_US_MAX = 1e15
local COUNT_MAX = 2e9 -- two of the largest sizes
local TICKS_MAX = 1e6 -- in `per`
local CLOCK_SLACK_US = 1e6
local NUMBER_MAX = 2 ^ 53 - 1

local function ticks_to_us(limit, ticks)
    return ticks > WAIT_US_MAX / limit.tick_us and WAIT_US_MAX or ticks * limit.tick_us
end

-- What of `change` a count takes.
local function bound_change(count, change, room)
    if change < 0 then
        return max(change, -count)
    end
    return min(change, max(room, 0), COUNT_MAX - count)
end
