-- The grants of a call: storing the leases, and the answer that reports them to the worker.
-- Guarantee: the same call number is answered with the same leases, as far as they have not ended.
-- Needs: clock, ledger, bands, holds.
local take, save_grants, repeat_grants, amount_granted, is_heavy, answer_of_grants
local gentle_sites  -- Domains of all rounds whose rules are gentle, as the keys of a table; nil if there are none.

do
-- Size in bytes from which an answer gets no more entries: an answer that takes longer than a worker waits
-- would be requested again and again.
local HEAVY = 4 * 1024 * 1024
local AS_HEAVY_AS_DROPPED = HEAVY / 512  -- A call ends some hundred entries of promoted pages.
local answered, known_lots, crawls, profiles = {}, {}, {}, {}
local amount, spares, weight, new_holds = 0, 0, 0, {}

-- Add the crawl of a lot, and the profile that an entry names, to the answer. Most entries of a
-- lot begin alike, with the profile number.
local function meet_lot(lot)
  local crawl, n = crawl_of(lot.c), #known_lots
  local context = crawl.context or {}
  crawls[lot.c] = { crawl.name, tonumber(crawl.run), crawl.recovered or false, crawl.occasion or '',
    context.generation, context.known_life, context.known_number }
  known_lots[n + 1], known_lots[n + 2] = lot.c, lot.priority
  lot.number = n / 2 + 1
end

local function meet_entry(lot, entry)
  if not lot.number then
    meet_lot(lot)
  end
  local number, separator = string.match(entry, '^(%d+)(.)')
  local profile = lot.c .. '/' .. number
  if not profiles[profile] then
    profiles[profile] = redis.call('HGET', K.profiles(lot.c), number) or ''
    weight = weight + #profiles[profile]
  end
  lot.beginning = number .. separator
end

local find = string.find

local function answer(lot, place, domain, entry)
  if not lot.number or find(entry, lot.beginning, 1, true) ~= 1 then
    meet_entry(lot, entry)
  end
  local n = 4 * amount
  answered[n + 1], answered[n + 2], answered[n + 3], answered[n + 4] = place, lot.number, domain, entry
  amount, weight = amount + 1, weight + #entry
end

-- Grant entries that were taken from a band, or lease them as spare ones; return their number, less those of pages that
-- were promoted and granted. Spare ones use no gate.
function take(lot, domain, entries, is_spare)
  if crawl_of(lot.c).is_scored then
    local dropped
    entries, dropped = promotion().take(lot.c, domain, entries)
    weight = weight + dropped * AS_HEAVY_AS_DROPPED
  end
  local gate = not is_spare and gates and gates.paid[domain]
  domain = gate and domain .. gate.name or domain
  local head
  if is_spare then
    head, spares = hold_beginning(hold_head(now, lot, SPARE), domain), spares + #entries
  else
    lot.head = lot.head or hold_head(now, lot, 0)
    head = hold_beginning(lot.head, domain)
  end
  local sign = is_spare and -1 or 1
  for i = 1, #entries do
    local entry = entries[i]
    answer(lot, sign * (amount + 1), domain, entry)
    new_holds[amount] = head .. entry
  end
  lot.taken = lot.taken + #entries
  return #entries
end

local DIGITS = { '1', '2', '3', '4', '5', '6', '7', '8', '9', [0] = '0' }

-- Store the grants of call number `call`. Formatting numbers is expensive: one in ten tokens is formatted.
function save_grants(worker, call)
  local fields, first = { '!', int(call) }, int(call) .. '-'
  local stem = first
  for place = 1, amount do
    local digit = place % 10
    if digit == 0 then
      stem = first .. place / 10
    end
    fields[2 * place + 1], fields[2 * place + 2] = stem .. DIGITS[digit], new_holds[place]
  end
  if amount > 0 then
    redis.call('HSET', K.holds(worker), unpack(fields))
  end
  for _, lot in ipairs(lots) do
    count(lot.c, 'queued', -lot.taken)
    count(lot.c, 'held', lot.taken)
  end
end

-- Answer again the leases granted to an earlier call with this number (its reply was lost).
function repeat_grants(worker, call)
  local holds = all_holds(worker)
  for i = #holds, 1, -1 do
    local hold = holds[i]
    if hold.call == call then
      local place = hold.flags == SPARE and -hold.place or hold.place
      answer(hold.lot, place, hold.gate and hold.domain .. hold.gate.domain or hold.domain, hold.entry)
    end
  end
end

function amount_granted()
  return amount - spares
end

-- Return true if the answer has reached its maximum size: the rest is for the next call.
function is_heavy()
  return weight > HEAVY
end

-- Return leases, lots, crawls, profiles and, if there are any, the domains of new leases whose rules are gentle, as
-- `exchange` answers them.
function answer_of_grants()
  local gentle_domains
  if gentle_sites then
    gentle_domains = {}
    for n = 3, #answered, 4 do
      local domain = string.match(answered[n], '^[^=]*')
      if gentle_sites[domain] then
        gentle_domains[#gentle_domains + 1], gentle_sites[domain] = domain, nil
      end
    end
  end
  return answered, known_lots, crawls, profiles, gentle_domains
end
end
