-- What hosts hold of a counter: records of 32 bytes behind the text of its state, those that
-- end first before the others, so that who only counts looks at the first.
--
--   host, seq      8 and 4 bytes: whose, and which of its leases or exchanges
--   amount, place  4 and 8: what a lease took and where; of an exchange 0, and the numbers of
--                  the limit that its host counts by
--   ends_us        8: when it ends
--
-- Numbers are read as what they may be at most, and ends are put right: text may be anything.
local BYTES, RECORDS_MAX = 32, 256
local AMOUNT_MAX = COUNT_MAX / 2
local KEPT_US_MAX = 60e6 -- an end beyond this: the clock was stepped back

local function amount_at(records, at)
    return math.min(struct.unpack('>I4', records, at + 12), AMOUNT_MAX)
end

local function place_at(records, at)
    return math.min(struct.unpack('>I8', records, at + 16), NUMBER_MAX)
end

local function ends_at(records, at)
    local ends = struct.unpack('>I8', records, at + 24)
    return ends
end

local function last_end(records)
    return ends_at(records, #records - BYTES + 1)
end

-- With the ends of those that end too late put right; nil: none does.
local function align(records)
    local most = now + KEPT_US_MAX
    if last_end(records) <= most then
        return nil
    end
    local at, changed = #records + 1, 0
    while at > 1 and ends_at(records, at - BYTES) > most do
        at, changed = at - BYTES, changed + 1
    end
    local aligned = {string.sub(records, 1, at - 1)}
    for i = 1, changed do
        aligned[i + 1] = string.sub(records, at, at + 23) .. struct.pack('>I8', most)
        at = at + BYTES
    end
    return table.concat(aligned)
end

-- Put the ends of a counter's records right, and take back what has ended, whole.
local function tend(counter)
    local records, at = align(counter[RECORDS]) or counter[RECORDS], 1
    while at < #records and ends_at(records, at) <= now do
        counter[TEXT] = counter[KIND].settle(counter, {
            place = place_at(records, at), amount = amount_at(records, at), truth = 0,
        }) or counter[TEXT]
        at = at + BYTES
    end
    counter[RECORDS] = string.sub(records, at)
    counter[HAS_ENDED] = at > 1
end

-- Take a counter's text apart. What is behind a text that is none is nothing either.
local function open(counter)
    local text = counter[TEXT]
    local bytes = #text % BYTES
    if #text <= bytes + RECORDS_MAX * BYTES then
        counter[TEXT] = string.sub(text, 1, bytes)
        counter[KIND].read(counter)
        if not counter[IS_GARBAGE] then
            counter[RECORDS] = string.sub(text, bytes + 1)
            tend(counter)
        end
    end
end

-- Where the lease of that host and seq begins; nil: nowhere.
local function find(records, id)
    local at = string.find(records, id, 1, true)
    while at and (at % BYTES ~= 1 or amount_at(records, at) == 0) do
        at = string.find(records, id, at + 1, true)
    end
    return at
end

-- Where the last exchange of a host begins, whose amount and place are those; nil: nowhere.
local function find_last(records, host, what)
    local at = string.find(records, host, 1, true)
    while at and (at % BYTES ~= 1 or string.sub(records, at + 12, at + 23) ~= what) do
        at = string.find(records, host, at + 1, true)
    end
    return at
end

local function drop(records, at)
    return string.sub(records, 1, at - 1) .. string.sub(records, at + BYTES)
end

local function has_room(records)
    return #records < RECORDS_MAX * BYTES
end

-- what: amount and place
local function add(records, id, what, ends)
    local at = #records + 1
    while at > 1 and ends_at(records, at - BYTES) > ends do
        at = at - BYTES
    end
    return string.sub(records, 1, at - 1)
        .. id .. what .. struct.pack('>I8', ends)
        .. string.sub(records, at)
end

-- What all leases took.
local function sum(records)
    local amount = 0
    for at = 1, #records, BYTES do
        amount = amount + amount_at(records, at)
    end
    return amount
end

return {
    open = open, last_end = last_end, find = find, find_last = find_last, drop = drop,
    has_room = has_room, add = add, sum = sum, amount_at = amount_at, place_at = place_at,
}
