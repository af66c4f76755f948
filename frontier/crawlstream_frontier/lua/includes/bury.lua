-- Entries without success: taken back from a worker with a mark, or failed with a reason, and published
-- with all data that is needed to feed them again.
-- Guarantee: an entry that is taken back often enough becomes a dead letter, so that no entry circulates
--   permanently.
-- Needs: clock, ledger; `take_back` also views, throttle, bands, dedupe, admit, holds.
local MAX_DEATHS, MAX_REAPS, UNPAUSED_REAPS, LONGEST_PAUSE_MS = 3, 20, 2, 60000
local VERSION_BYTES = 1  -- Before the JSON of a profile.

-- Count a failed page whose client waits for it as answered: redis-monitor replies with its failure.
local function note_answered(c, profile)
  if profile.answer == 'page' and profile.uuid then
    count(c, 'a:' .. profile.uuid, -1)
  end
end

-- Fail an entry; `S` is the spider that the entry was for, under its crawlers' name.
local function bury(c, S, domain, priority, entry, reason)
  count(c, 'failed', 1)
  count(c, 'f:' .. reason, 1)
  touched[c] = true
  local profile = redis.call('HGET', K.profiles(c), string.match(entry, '^%d+'))
  if profile and string.find(profile, '"answer":"page"', 1, true) then
    note_answered(c, cjson.decode(string.sub(profile, VERSION_BYTES + 1)))
  end
  owe('page_failed', c, { reason = reason, entry = entry, spider = S, domain = domain, priority = priority,
    profile = profile or '' })
end

local function pause_after(reaps)
  if reaps <= UNPAUSED_REAPS then
    return 0
  end
  return math.min(1000 * 2 ^ (reaps - UNPAUSED_REAPS - 1), LONGEST_PAUSE_MS)
end

-- Take an entry back from a worker: to the front of its band with one reap more, and `death` (0 or 1), unless it is a
-- spare one; it fails with `reason` after too many. Return true if it failed.
local function take_back(hold, death, reason)
  end_hold(hold)
  if hold.flags == SPARE then
    put_back(hold, hold.entry, hold.lot.priority, true, 0)
    return false
  end
  local retries, deaths, reaps = marks_of(hold.entry)
  deaths, reaps = deaths + death, reaps + 1
  local entry = with_marks(hold.entry, retries, deaths, reaps)
  if deaths >= MAX_DEATHS or reaps >= MAX_REAPS then
    bury(hold.lot.c, spider_of(hold.lot.view), hold.domain, hold.lot.priority, entry, reason)
    return true
  end
  put_back(hold, entry, hold.lot.priority, true, pause_after(reaps))
  return false
end
