#!lua
-- enlist: add everything but pages to a partition that is being filled: crawls, their registry, fingerprints of
--   small domains, throttle states.
-- Guarantee: fills only a partition that is not in use yet: no-op unless `m` marks it as being filled.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 kind, 2 packed {its arguments …}
--   begin    m {…}, positions {…}, enrolled {…}, epochs {…}
--   crawl    name, text in `names`, c, ledger {…}, profiles {…}, {shift, forgotten at|'', paused until|-1}
--   home     name, packed, is a run open, profiles {…}
--   slabs    c, {slab, {fingerprint …} …}
--   states   {name, state …}
--   open     the layout: from now on the partition is in normal use
-- Returns: 1; 0 if the partition is not being filled
-- Cost: O(arguments).
--- include: keys
local what, arguments = ARGV[1], cmsgpack.unpack(ARGV[2])
local FILLED, FORGET_AFTER_MS = '^0', 3600 * 1000
local enlist = {}

local function write(key, fields)
  if #fields > 0 then
    redis.call('HSET', key, unpack(fields))
  end
end

function enlist.begin(meta, positions, enrolled, epochs)
  redis.call('DEL', K.moved)
  write(K.meta, meta)
  write(K.positions, positions)
  write(K.enrolled, enrolled)
  write(K.epochs, epochs)
end

function enlist.crawl(name, text, c, ledger, profiles, steered)
  local shift, forget_at, paused_until = unpack(steered)
  redis.call('HSET', K.names, name, text)
  write(K.ledger(c), ledger)
  write(K.profiles(c), profiles)
  local state, expires, recovered = unpack(redis.call('HMGET', K.ledger(c), 'state', 'expires', 'recovered'))
  if state == 'running' then
    redis.call('HINCRBY', K.totals, 'running', 1)
    if recovered and recovered % 4 >= 2 then
      redis.call('SADD', K.spending, c)
    end
    if tonumber(expires or 0) > 0 then
      redis.call('ZADD', K.expiry, expires, c)
    end
  end
  if shift ~= '0' then
    redis.call('HSET', K.shifts, c, shift)
  end
  if forget_at ~= '' then
    redis.call('ZADD', K.forget, forget_at, c)
  end
  if paused_until > 0 then
    redis.call('ZADD', K.pauses, paused_until, c)
  end
end

function enlist.home(name, packed, is_open, profiles)
  local crawl, clock = cmsgpack.unpack(packed), redis.call('HGET', K.meta, 'clock')
  write(K.home_profiles(name), profiles)
  if is_open then
    redis.call('ZADD', K.open, clock, name)
    if crawl.expires then
      redis.call('ZADD', K.expiring, crawl.expires[1], name)
    end
    if crawl.budgets then
      redis.call('SADD', K.budgeted, name)
    end
  else
    crawl.forget_at = clock + (crawl.remember and crawl.remember[1] * 1000 or FORGET_AFTER_MS)
    redis.call('ZADD', K.forgetting, string.format('%d', crawl.forget_at), name)
  end
  redis.call('HSET', K.registry, name, cmsgpack.pack(crawl))
end

function enlist.slabs(c, slabs)
  for i = 1, #slabs, 2 do
    redis.call('SADD', K.slab(c, string.format('%d', slabs[i])), unpack(slabs[i + 1]))
  end
end

-- Each may be deleted as soon as it holds nothing back, whether or not its domain has pages.
function enlist.states(states)
  write(K.states, states)
  for i = 1, #states, 2 do
    redis.call('ZADD', K.spent, redis.call('HGET', K.meta, 'clock'), states[i])
  end
end

function enlist.open(layout)
  redis.call('HSET', K.meta, 'layout', layout)
end

local layout = redis.call('HGET', K.meta, 'layout')
if what ~= 'open' and not (layout and string.find(layout, FILLED) or what == 'begin' and not layout) then
  return 0
end
enlist[what](unpack(arguments))
return 1
