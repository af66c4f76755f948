-- Rounds: the candidates of a pass of `lease`, best first.
-- Part of `lease`. Cost: O(log D) per candidate.

-- Create a round: candidates of one pass, best first. It has their source, `w` (due) or `r` (ready), their
-- domains, values of `o`, the sizes of groups with equal priority, and later the outcome of each.
local function round_of(is_due, domains, o)
  return { is_due = is_due, domains = domains, o = o, claims = {}, sizes = {}, ranks = {}, ready = {},
    waiting = {}, gone = {}, left = {} }
end

local function add_claim(round, claim, size)
  local n = #round.claims
  if round.claims[n] == claim then
    round.sizes[n] = round.sizes[n] + size
  else
    round.claims[n + 1], round.sizes[n + 1] = claim, size
  end
end

-- Return `o` of the domains that an index of V names; domains without an entry leave both lists.
local function tags_of(V, index, domains)
  local o = #domains > 0 and redis.call('HMGET', K.tags(spider_of(V)), unpack(domains)) or {}
  for i = #domains, 1, -1 do
    if not o[i] then
      redis.call('ZREM', index, domains[i])
      table.remove(domains, i)
      table.remove(o, i)
    end
  end
  return o
end

-- Return a round of the due domains, in the order of their entries.
local function due_round(V, due, o)
  local tops, order, are_equal = {}, {}, true
  for i = 1, #due do
    tops[i], order[i] = top_of(V, due[i], o[i]), i
    are_equal = are_equal and tops[i] == tops[1]
  end
  if not are_equal then
    table.sort(order, function(a, b) return tops[a] > tops[b] end)
  end
  local round = round_of(true, {}, {})
  for i, at in ipairs(order) do
    round.domains[i], round.o[i] = due[at], o[at]
    add_claim(round, tops[at], 1)
  end
  return round
end

-- Make due domains ready.
local function promote(V, due, o)
  local args, ranks = {}, {}
  for i = 1, #due do
    local top = top_of(V, due[i], o[i])
    ranks[top] = ranks[top] or rank(top)
    args[2 * i - 1], args[2 * i] = ranks[top], due[i]
  end
  redis.call('ZADD', K.ready(V), unpack(args))
  redis.call('ZREM', K.waiting(V), unpack(due))
end

-- Return a round of the first ready domains. Scores are long numbers, expensive to read: if the first and the last
-- have one priority, all have.
local function ready_round(V, domains)
  local round = round_of(false, domains, tags_of(V, K.ready(V), domains))
  local n = #domains
  if n == 0 then
    return round
  end
  local ends = redis.call('ZMSCORE', K.ready(V), domains[1], domains[n])
  if priority_of(ends[1]) == priority_of(ends[2]) then
    add_claim(round, priority_of(ends[1]), n)
    return round
  end
  for _, score in ipairs(redis.call('ZMSCORE', K.ready(V), unpack(domains))) do
    add_claim(round, priority_of(score), 1)
  end
  return round
end

-- Rounds with gates.
if gates then
gates.rounds =
--- function: gate_rounds
end

-- Return the next domains to serve, at most `limit`, best claim first: due ones directly while no other is ready.
local function candidates(V, limit)
  local due = redis.call('ZRANGE', K.waiting(V), '-inf', int(now), 'BYSCORE', 'LIMIT', 0,
    math.max(2 * limit, PROMOTE_AT_LEAST))
  local gate_of, any
  if gates then
    gate_of, any = gates.of(due)
    if any then
      return gates.rounds().after(V, limit, due, gate_of)
    end
  end
  local o = tags_of(V, K.waiting(V), due)
  if #due > 0 and #due <= limit and redis.call('ZCARD', K.ready(V)) == 0 then
    return due_round(V, due, o)
  elseif #due > 0 then
    promote(V, due, o)
  end
  local ready = redis.call('ZRANGE', K.ready(V), 0, limit - 1)
  if gates then
    gate_of, any = gates.of(ready)
    if any then
      return gates.rounds().of(V, limit, ready, gate_of)
    end
  end
  return ready_round(V, ready)
end
