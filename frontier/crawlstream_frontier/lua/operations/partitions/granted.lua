#!lua flags=allow-oom
-- granted: record the credits that the coordinator has granted to a partition, and admit the links waiting for them.
-- Guarantee: safe to repeat, in any order: an answer to another account than the present one, or from an earlier
--   epoch of the coordinator, changes nothing. Waiting links are refused only when the coordinator reports the limit as
--   reached.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {name, generation, life of the coordinator, grant as of `draw`, most links}
-- Returns: as `count`
-- Cost: as the children of a settle.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: dedupe
--- include: admit
--- include: crawls

local name, generation, home_life, told, most = unpack(cmsgpack.unpack(ARGV[1]))

local function receive(c)
  local account_life, number, total, rank_told, elsewhere, over = unpack(told)
  local account = accounts().get(c)
  if home_life < account.home_life or account_life ~= account.life or number ~= account.number then
    return
  end
  local more = math.max(total - account.drawn, 0)
  account.drawn, account.unspent = account.drawn + more, account.unspent + more
  account.home_life = home_life
  if total >= account.drawn then
    account.rank, account.elsewhere = rank_told, elsewhere
  end
  if over > account.over and more == 0 and credits().usable(c, over) == 0 then
    account.over = over
  end
  accounts().save(c)
end

-- Take the first links out of limbo, up to `amount`, all under the same limit.
local function take_out(c, amount)
  local packed, ones, marks = redis.call('LRANGE', K.limbo(c), 0, int(amount - 1)), {}, {}
  for i = 1, #packed do
    local one = cmsgpack.unpack(packed[i])
    if i > 1 and one[1] ~= ones[1][1] then
      break
    end
    ones[i], marks[i] = one, one[7]
    if one[2] >= 0 and redis.call('HINCRBY', K.limbo_domains(c), one[6], -1) <= 0 then
      redis.call('HDEL', K.limbo_domains(c), one[6])
    end
  end
  redis.call('LTRIM', K.limbo(c), #ones, -1)
  redis.call('SREM', K.limbo_marks(c), unpack(marks))
  return ones
end

local function let_enter(c, ones)
  local links, domains = {}, {}
  for i, one in ipairs(ones) do
    domains[i] = one[6]
  end
  load_domain_records(c, domains)
  for i, one in ipairs(ones) do
    local limit, domain_cap, priority, S, site, domain, fingerprint, entry, counts = unpack(one, 1, 9)
    for _, part in ipairs({ priority, S, counts or true, site, 1, domain, 1, fingerprint, entry }) do
      links[#links + 1] = part
    end
    if not ones[i + 1] or ones[i + 1][2] ~= domain_cap then
      admit(c, links, caps_of(domain_cap, limit))
      links = {}
    end
  end
  save_domain_records()
end

-- Admit or refuse the links that have waited longest; again for those under another limit.
local function step(c)
  local left = most
  while left > 0 do
    local draw = draw_of(c)
    local limit, ready = draw[5], math.min(left, draw[7])
    if ready == 0 then
      return
    end
    local ones = take_out(c, ready)
    left = left - #ones
    count(c, 'limbo', -#ones)
    if credits().usable(c, limit) > 0 then
      let_enter(c, ones)
    else
      count(c, 'z:max_pages', #ones)
    end
  end
end

local record, answer = load_name(name), { life, 0, 0, 0, 0, 0, 0 }
if record and record.live and record.run == generation then
  local c = record.c
  receive(c)
  step(c)
  answer = draw_of(c)
end
finish()
return cmsgpack.pack(answer)
