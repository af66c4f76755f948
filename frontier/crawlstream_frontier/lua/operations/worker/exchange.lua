#!lua flags=allow-oom
-- exchange: apply all reports of a worker and lease entries to it, in one call.
-- Guarantee: reports take effect in the order sent, settle, requeue, release, lease. Each is safe to
--   repeat: an ended lease is answered as stale, and a call number that was granted before is answered
--   with the same leases. Children of a page and its completion are one unit of the append-only file.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {call, worker, spider, want, deadline_ms, sents, ends, settles, requeues, releases
--   [, egress group [, spares]]}; without a group nothing is granted where each group has limits of its own
--   spares  domain -> most entries to lease without a grant, with one that is granted: they may be ended, or released
--           in the reverse of their order, and no request of them may leave
--   sent    {token, after_ms, is received [, reaction, wait_ms, until_ms [, ms to the first byte]]}; the next three
--           only if the site reacted: see `heed`; the last one only if its rule is gentle
--   end     {outcome, reason, tokens, sent_ms|-1 of each, bytes of each [, metered]}: pages without links; of skipped
--           ones the reason may be "<reason> <site> <family>"; metered: if their domain, one for all, has budgets in
--           its run, as of `domain_budgets`
--   settle  {token, outcome, reason, sent_ms|-1|-2, bytes, domain_cap|-1, crawl_cap|-1,
--            links as in `admit`, counts {<z|d|r|p>:reason, n …}, put in life|-1, spilled {chunk, links …}
--            [, need {partition, offset …} [, refused [, metered]]]}; sent_ms -2: there was no request and will be
--            none; life: the epoch in which links were put ahead, or left out because they were known; need: offsets
--            up to which other partitions must read their links; refused: as in `families`
--   requeue {token, delay_ms, sent_ms|-1, priority_step}
--   release {token, delay_ms, sent_ms|-1|-2, is robots, Crawl-delay in ms, rest in ms [, site|'' [, priority|nil
--           [, gate|'' [, spider]]]]};
--           rest: until its site may be visited; site: where the entry belongs if it was granted under another
--           site; priority: the band that it goes to. It goes to the back of its queue there; gate: that of its
--           site, by the address that it has; spider: the one that it waits for from now on, at the back of its queue
-- Returns: packed {holds, lots, crawls, profiles, stale, life, next_due_ms|-1, rules_known, repeat,
--   refused, is Redis crowded|-1, capped, version of the sites|'', unconfirmed, wall [, gentle [, spent [, trusted]]]};
--   crowded is 1 or 0, -1 if it was not checked
--   holds    {place, number of the lot, domain with the gate that was used, entry …}; the token is "<call>-<place>".
--            The place of a spare one is negative, and positive in the token
--   lots     {crawl number, priority …}
--   crawls   crawl number -> {name, run, recovered, occasion|'' [, generation, life and number of the
--            state of the registry that its label comes from]}
--   profiles "crawl number/profile number" -> bytes
--   repeat   tokens whose puts a restart may have lost: put again, then settle
--   refused  tokens whose children have no room: spill them, then settle; this call did nothing for them
--   capped   tokens that have ended, although not all of their children were admitted or known
--   unconfirmed  contexts that have work and need a label from their coordinators, in the form of `take`
--   gentle   domains of holds whose rules are gentle: the time to the first byte is to be reported; not for repeated
--            grants
--   spent    {crawl number, domain, budget …}: of domains that have spent one in the run, also those of the leases
--   trusted  {crawl number, domain …} of leases, in crawls with a host budget: see `host_budgets`
-- Cost: per page the work of about 12 commands, in one round trip for the whole call.
--- include: clock
--- include: views
--- include: ledger
--- include: families
--- include: throttle
--- include: bands
--- include: dedupe
--- include: admit
--- include: holds
--- include: grants
--- include: lease
--- include: memory
--- include: spills

local call, worker, S, want, deadline_ms, sents, ends, settles, requeues, releases, egress_group, spares =
  unpack(cmsgpack.unpack(ARGV[1]))

-- Position of the token in a report, of the tokens in a group of ends, and of the links in a settle.
local TOKEN, TOKENS, LINKS, UNSENT = 1, 3, 8, -2
local tokens, holds, stale = {}, {}, {}
for _, reports in ipairs({ sents, settles, requeues, releases }) do
  for _, report in ipairs(reports) do
    tokens[#tokens + 1] = report[TOKEN]
  end
end
load_holds(worker, tokens, holds, stale)
for _, group in ipairs(ends) do
  load_holds(worker, group[TOKENS], holds, stale)
end
join_throttle(holds)

for _, sent in ipairs(sents) do
  local token, after_ms, is_received, reaction, wait_ms, until_ms, first_byte_ms = unpack(sent)
  local hold = holds[token]
  if hold then
    note_sent(hold, after_ms)
    if is_received then
      local is_news = reaction and hold.flags < 2
      note_received(hold)
      if is_news then
        heed(hold, hold.state, reaction, wait_ms, until_ms, first_byte_ms)
      end
    end
  end
end

-- End a lease; its token is unknown from now on.
local function end_once(hold, sent_ms, is_answer)
  local state, is_unsent = hold.state, sent_ms == UNSENT
  local is_news = is_answer and not is_unsent and state[NOT_BEFORE] ~= 0 and hold.flags < 2
  end_hold(hold, sent_ms >= 0 and sent_ms or nil, is_unsent)
  holds[hold.token] = nil
  if is_news then
    heed(hold, state, ANSWER)
  end
end

local used_in = {}  -- Rows of `add_used` by crawl number.

-- Count pages of crawl c by their outcome and its reason.
local function count_ends(c, outcome, reason, pages, bytes, metered)
  if pages > 0 then
    if metered then
      local domain, most, share = unpack(metered)
      local rows = used_in[c] or {}
      local row = rows[domain] or { 0, 0, 0, most, share }
      used_in[c], rows[domain] = rows, row
      row[1] = row[1] + bytes
      row[2], row[3] = row[2] + (outcome == 'done' and pages or 0), row[3] + (outcome == 'failed' and pages or 0)
      row[4] = (row[4] == 0 or most > 0 and most < row[4]) and most or row[4]
      row[5] = (row[5] == 0 or share > 0 and share < row[5]) and share or row[5]
    end
    count(c, outcome, pages)
    count(c, 'bytes', bytes)
    local name = outcome == 'skipped' and string.match(reason, '^(%S+) ')
    if name then
      count_families(c, { reason, pages })
    end
    if reason ~= '' then
      local letter = outcome == 'failed' and 'f:' or outcome == 'skipped' and 'k:' or 'n:'
      count(c, letter .. (name or reason), pages)
    end
  end
end

for _, group in ipairs(ends) do
  local outcome, reason, ended_tokens, sent_ms, body_bytes, metered = unpack(group)
  local is_answer, c, pages, bytes = outcome ~= 'failed', nil, 0, 0
  for i = 1, #ended_tokens do
    local hold = holds[ended_tokens[i]]
    if hold then
      if hold.lot.c ~= c then
        count_ends(c, outcome, reason, pages, bytes, metered)
        c, pages, bytes = hold.lot.c, 0, 0
      end
      pages, bytes = pages + 1, bytes + body_bytes[i]
      end_once(hold, sent_ms[i], is_answer)
    end
  end
  count_ends(c, outcome, reason, pages, bytes, metered)
end

local to_repeat, refused, capped, crowded = {}, {}, {}, -1
if #settles > 0 then
  crowded = is_crowded(memory()) and 1 or 0
  local domains = {}
  for _, settle in ipairs(settles) do
    local hold = holds[settle[TOKEN]]
    if hold then
      domains[hold.lot.c] = add_domains(settle[LINKS], domains[hold.lot.c] or {})
    end
  end
  for c, names in pairs(domains) do
    load_domain_records(c, names)
  end
end
for _, settle in ipairs(settles) do
  local token, outcome, reason, sent_ms, bytes, domain_cap, crawl_cap, links, counts, put_in_life,
    spilled, need, families, metered = unpack(settle)
  local hold = holds[token]
  if not hold then
    drop_spills(worker, token, spilled)
  elseif put_in_life >= 0 and put_in_life ~= life then
    to_repeat[#to_repeat + 1] = token
  elseif crowded == 1 and #links > 0 then
    refused[#refused + 1] = token
  else
    local c = hold.lot.c
    local _, refusal = admit_children(c, links, caps_of(domain_cap, crawl_cap), nil, hold.domain)
    if refusal then
      capped[#capped + 1] = token
    end
    if put_in_life >= 0 and crawl_cap >= 0 and crawl_of(c).context and limbo().length(c) > 0 then
      limbo().note_short(c)  -- Links that were put ahead may wait for credits.
    end
    register_spills(worker, hold, spilled)
    if need and need[1] and is_open(c) then
      home_waits().raise_need(c, need)
    end
    for i = 1, #counts, 2 do
      count(c, counts[i], counts[i + 1])
    end
    if families and families[1] then
      count_families(c, families)
    end
    end_once(hold, sent_ms, outcome ~= 'failed')
    count_ends(c, outcome, reason, 1, bytes, metered)
  end
end
save_domain_records()
for c, rows in pairs(used_in) do
  if crawl_of(c).state == 'running' then
    add_used(c, rows)
  end
end

for _, requeue in ipairs(requeues) do
  local token, delay_ms, sent_ms, priority_step = unpack(requeue)
  local hold = holds[token]
  if hold then
    end_once(hold, sent_ms)
    local entry = entry_of(hold)
    local retries, deaths, reaps = marks_of(entry)
    entry = with_marks(entry, retries + 1, deaths, reaps)
    put_back(hold, entry, hold.lot.priority + priority_step, false, delay_ms)
  end
end

for _, release in ipairs(releases) do
  local token, delay_ms, sent_ms, is_robots, crawl_delay_ms, rest_ms, site, priority, gate, S_of_entry =
    unpack(release, 1, 10)
  local hold = holds[token]
  if hold then
    end_once(hold, sent_ms)
    if is_robots or rest_ms > 0 then
      note_change(hold)  -- An earlier call may have reported its response.
      note_robots(hold.state, crawl_delay_ms, rest_ms)
    end
    hold.located = gate
    if site and site ~= '' then
      hold.domain, hold.is_moved = site, true
    end
    hold.spider = S_of_entry
    local in_front = not (hold.is_moved or priority or S_of_entry)
    put_back(hold, entry_of(hold), priority or hold.lot.priority, in_front, delay_ms)
  end
end

flush_holds(worker)
redis.call('ZADD', K.workers, int(now + deadline_ms), worker)
local next_due = lease(view_of(S, egress_group or ''), worker, call, want, spares)
for c in pairs(made_limbo and made_limbo.short or {}) do
  unconfirmed[c] = true
end
finish()
local granted_holds, granted_lots, crawls, profiles, gentle = answer_of_grants()
local SOME_SPENT, spent, watched = 12, nil, {}
for n = 1, #granted_lots, 2 do
  if crawl_of(granted_lots[n]).used == SOME_SPENT then
    watched[(n + 1) / 2], spent, gentle = granted_lots[n], {}, gentle or {}
  end
end
if spent then
  local names_in = {}
  for n = 2, #granted_holds, 4 do
    local c, name = watched[granted_holds[n]], string.match(granted_holds[n + 1], '^[^=]*')
    while c and name do  -- A site may be a part of a domain, which has one of the names that end its own.
      names_in[c] = names_in[c] or {}
      names_in[c][#names_in[c] + 1], name = name, string.match(name, '^[^.]*%.(.+)$')
    end
  end
  for c, names in pairs(names_in) do
    for domain, budget in pairs(spent_budgets(c, names)) do
      for _, part in ipairs(budget and { c, domain, budget } or {}) do
        spent[#spent + 1] = part
      end
    end
  end
end
local trusted_ones = has_host_budgets and host_budgets().trusted(granted_holds, granted_lots) or nil
local version, date = version_and_date()
return cmsgpack.pack({ granted_holds, granted_lots, crawls, profiles, stale, life, next_due, rules_known,
  to_repeat, refused, crowded, capped, version, next(unconfirmed) and home_waits().questions(unconfirmed) or {}, date,
  gentle or trusted_ones and {}, spent or trusted_ones and {}, trusted_ones })
