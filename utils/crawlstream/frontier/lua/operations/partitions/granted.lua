#!lua flags=allow-oom
-- granted: a partition hears what the home has granted it, and lets in what waits for it.
-- Guarantee: safe to repeat, in any order: an answer to another account than the present one, or of an earlier life of
--   the home, changes nothing. What waits is refused only when the home has said that the limit is reached.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {name, generation, life of the home, grant as of `draw`, how many links at most}
-- Returns: packed {life, number, drawn, unspent, limit, wanted} as of `count`, then how many more could enter, or
--   be refused, at once; all 0 for a context that is not there
-- Cost: as the children of a settle.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: finish
--- include: dedupe
--- include: admit
--- include: crawls

local name, generation, home_life, grant, most = unpack(cmsgpack.unpack(ARGV[1]))

local function receive(c)
  local account_life, number, total, rank, elsewhere, over = unpack(grant)
  local account = credits().account(c)
  if home_life < account.home_life or account_life ~= account.life or number ~= account.number then
    return
  end
  local more = math.max(total - account.drawn, 0)
  account.drawn, account.unspent = account.drawn + more, account.unspent + more
  account.home_life = home_life
  if total >= account.drawn then
    account.rank, account.elsewhere = rank, elsewhere
  end
  if over > account.over and more == 0 and credits().usable(c, over) == 0 then
    account.over = over
  end
  credits().save(c)
end

-- Take the first out of limbo: as many as may be, all with the same limit.
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

local function enter(c, ones)
  local links, domains = {}, {}
  for i, one in ipairs(ones) do
    domains[i] = one[6]
  end
  load_domain_records(c, domains)
  for i, one in ipairs(ones) do
    local limit, domain_cap, priority, S, site, domain, fingerprint, entry = unpack(one)
    for _, part in ipairs({ priority, S, true, site, 1, domain, 1, fingerprint, entry }) do
      links[#links + 1] = part
    end
    if not ones[i + 1] or ones[i + 1][2] ~= domain_cap then
      admit(c, links, caps_of(domain_cap, limit))
      links = {}
    end
  end
  save_domain_records()
end

-- What can be done now for the first that wait: let some enter, or refuse some.
local function possible(c)
  local head = redis.call('LINDEX', K.limbo(c), 0)
  local limit = head and cmsgpack.unpack(head)[1] or 0
  return credits().usable(c, limit), limit > 0 and credits().account(c).over >= limit
end

local function step(c)
  local left = most
  while left > 0 and limbo().length(c) > 0 do
    local usable, is_over = possible(c)
    if usable == 0 and not is_over or not is_open(c) then
      return
    end
    local ones = take_out(c, math.min(left, usable > 0 and usable or left))
    left = left - #ones
    if usable > 0 then
      enter(c, ones)
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
  local usable, is_over = possible(c)
  local waiting = is_open(c) and limbo().length(c) or 0
  answer = draw_of(c)
  answer[7] = is_over and waiting or math.min(usable, waiting)
end
finish()
return cmsgpack.pack(answer)
