#!lua flags=allow-oom
-- exchange: everything a worker tells the frontier and everything it gets, in one call.
-- Guarantee: effects in the order sent, settle, requeue, release, lease. Each is safe to repeat: an
--   ended hold is answered as stale, and a call number that was granted before is answered with the
--   same holds. Children of a page and its completion are one unit of the append-only file.
-- KEYS: 1 prefix of the partition.
-- ARGV: 1 packed {call, worker, spider, want, deadline_ms, sents, ends, settles, requeues, releases}
--   sent    {token, after_ms, received, what the site did (see `heed`), wait_ms, epoch_ms}; the last
--           three only if it did something
--   end     {outcome, reason, tokens, sent_ms|-1 of each, bytes of each}: pages that found nothing
--   settle  {token, outcome, reason, sent_ms|-1, bytes, domain_cap|-1, crawl_cap|-1,
--            groups {domain, priority, spider, counts, fingerprints, entries}, filtered {reason, n …},
--            life in which links were put ahead or left out as known|-1, spilled {chunk, links …}}
--   requeue {token, delay_ms, sent_ms|-1, priority_step}
--   release {token, delay_ms, sent_ms|-1, robots, Crawl-delay in ms}
-- Returns: packed {holds, crawls, profiles, stale, life, next_due_ms|-1, rules_known, repeat,
--   refused, is Redis crowded: 1 or 0, -1 if nobody looked, capped}
--   hold     {token, crawl number, domain, priority, entry}
--   crawls   crawl number -> {name, run, recovered}
--   profiles "crawl number/profile number" -> bytes
--   repeat   tokens whose puts may have been lost by a restart: put again, then settle
--   refused  tokens whose children have no room: spill them, then settle; nothing was done
--   capped   tokens that have ended, though not all of their children entered or were known
-- Cost: per page about 12 commands' work; no round trip but its own.
--- include: clock
--- include: ledger
--- include: throttle
--- include: bands
--- include: dedupe
--- include: admit
--- include: holds
--- include: lease
--- include: memory
--- include: spills

local call, worker, S, want, deadline_ms, sents, ends, settles, requeues, releases =
  unpack(cmsgpack.unpack(ARGV[1]))

local tokens = {}
for _, list in ipairs({ sents, settles, requeues, releases }) do
  for _, item in ipairs(list) do
    tokens[#tokens + 1] = item[1]
  end
end
for _, group in ipairs(ends) do
  for _, token in ipairs(group[3]) do
    tokens[#tokens + 1] = token
  end
end
local stale = {}
local holds = load_holds(worker, tokens, stale)
local rules = throttle_of(holds)

-- The hold that a token names, with its throttle state and rule; nil if it is stale or has ended.
local function find(token)
  local hold = holds[token]
  if hold then
    return hold, state_cache[hold.domain], rules[hold.domain]
  end
end

local function known_ms(ms)
  return ms >= 0 and ms or nil
end

for _, sent in ipairs(sents) do
  local hold, state, rule = find(sent[1])
  if hold then
    note_sent(hold, state, rule, sent[2])
    if sent[3] then
      local is_news = sent[4] and hold.flags < 2
      note_received(hold, state, rule)
      if is_news then
        heed(hold, state, sent[4], sent[5], sent[6])
      end
    end
  end
end

local function end_once(hold, state, rule, sent_ms, is_answer)
  local is_news = state[NOT_BEFORE] ~= 0 and is_answer and hold.flags < 2
  end_hold(hold, state, rule, known_ms(sent_ms))
  holds[hold.token] = nil
  if is_news then
    heed(hold, state, ANSWER)
  end
end

-- Count a page by its outcome and its reason, a field of the ledger (nil: none).
local function count_end(c, outcome, reason, bytes)
  count(c, outcome, 1)
  count(c, 'bytes', bytes)
  if reason then
    count(c, reason, 1)
  end
end

local function reason_field(outcome, reason)
  return reason ~= '' and (outcome == 'failed' and 'f:' or 'n:') .. reason or nil
end

for _, group in ipairs(ends) do
  local outcome, reason, ended_tokens, sent_ms, bytes = unpack(group)
  reason = reason_field(outcome, reason)
  for i = 1, #ended_tokens do
    local hold, state, rule = find(ended_tokens[i])
    if hold then
      end_once(hold, state, rule, sent_ms[i], outcome ~= 'failed')
      count_end(hold.c, outcome, reason, bytes[i])
    end
  end
end

local to_repeat, refused, capped, crowded = {}, {}, {}, -1
if #settles > 0 then
  crowded = is_crowded(memory()) and 1 or 0
end
for _, settle in ipairs(settles) do
  local hold, state, rule = find(settle[1])
  if not hold then
    drop_spills(worker, settle[1], settle[11])
  elseif settle[10] >= 0 and settle[10] ~= life then
    to_repeat[#to_repeat + 1] = settle[1]
  elseif crowded == 1 and #settle[8] > 0 then
    refused[#refused + 1] = settle[1]
  else
    local _, refusal = admit_children(hold.c, settle[8], settle[6], settle[7])
    if refusal then
      capped[#capped + 1] = settle[1]
    end
    register_spills(worker, hold, settle[11])
    local filtered = settle[9]
    for i = 1, #filtered, 2 do
      count(hold.c, 'z:' .. filtered[i], filtered[i + 1])
    end
    end_once(hold, state, rule, settle[4], settle[2] ~= 'failed')
    count_end(hold.c, settle[2], reason_field(settle[2], settle[3]), settle[5])
  end
end

for _, requeue in ipairs(requeues) do
  local hold, state, rule = find(requeue[1])
  if hold then
    end_once(hold, state, rule, requeue[3])
    local entry = entry_of(hold)
    local retries, deaths, reaps = marks_of(entry)
    entry = with_marks(entry, retries + 1, deaths, reaps)
    put_back(hold, entry, hold.priority + requeue[4], false, requeue[2])
  end
end

for _, release in ipairs(releases) do
  local hold, state, rule = find(release[1])
  if hold then
    end_once(hold, state, rule, release[3])
    if release[4] then
      note_robots(hold.domain, state, rule, release[5])
    end
    put_back(hold, entry_of(hold), hold.priority, true, release[2])
  end
end

flush_holds(worker, rules)
redis.call('ZADD', P .. 'workers', int(now + deadline_ms), worker)
local granted, next_due = lease(S, worker, call, want)
save_states()
save_ledger()
wake_workers()
save_clock()
local crawls, profiles = context_of(granted)
return cmsgpack.pack({ granted, crawls, profiles, stale, life, next_due, rules_known,
  to_repeat, refused, crowded, capped })
