-- What the algorithms have in common: the twin of limit.h.
--
-- All numbers are whole and below 2^53, so sums, products, floor(a / b) and ceil(a / b) are
-- exact in doubles. A product that is not below is rounded, and stays above all that is.
--
-- An algorithm is a table of functions on counters:
--   read(counter)                what its state is `now`. A text that is none is dropped, a
--                                stamp that lies too far ahead is put right in the text
--   take(counter, cost)          an answer
--   settle(counter, correction)  the text after it; nil: nothing changes
-- and where hosts may hold some of a counter (redis/records.lua):
--   format, letter               how its text is packed
--   a correction that only adds  may be without a place: it is of now
--
-- Counters and answers are arrays: a table that has names costs three times as much to make.

-- A counter: of its limit, and its state as its key has it; TEXT: false where it is untouched.
-- What few counters have stands behind.
local REQUESTS, SIZE, PER, TICK_US, KIND, TEXT, TIE, ANSWER = 1, 2, 3, 4, 5, 6, 7, 8
local MAX_DELAY, STARTS, RECORDS, IS_GARBAGE, HAS_ENDED = 9, 10, 11, 12, 13

-- An answer. CHARGED: the text with the cost in it, false where there is none; PLACE: where
-- the charge stands in it. KEPT_US: for how long a key is needed, where that is not RESET_US.
local IS_ALLOWED, CHARGED, REMAINING, RESET_US, RETRY_US = 1, 2, 3, 4, 5
local WINDOW_END_US, DELAY_US, PLACE, KEPT_US = 6, 7, 8, 9

-- As enum limit_algorithm numbers them; algorithm(number) is the one.
local TOKEN_BUCKET = 1

local NEVER = -1
local WAIT_US_MAX = 1e15
local COUNT_MAX = 2e9 -- two of the largest sizes
local TICKS_MAX = 1e6 -- in `per`
local CLOCK_SLACK_US = 1e6
local NUMBER_MAX = 2 ^ 53 - 1
