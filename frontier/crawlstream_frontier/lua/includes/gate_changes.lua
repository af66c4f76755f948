-- Rare changes of domains in gates (see `gates`).
-- Part of `gate_states`: a function that is called once, when a call needs it.
local MOST_LOCATED = 100000
local changes = { raise = false, leave = false, locate = false, drain = false, drop = false }

-- Rank a domain that waits in its gate by a better priority; the gate has the rank of its best domain.
function changes.raise(V, gate, domain, score)
  if redis.call('ZADD', K.at_gate(V, gate), 'XX', 'LT', 'CH', score, domain) == 1 then
    redis.call('ZADD', K.ready(V), 'XX', 'LT', score, gate)
  end
end

-- Remove an empty gate of a view from the indexes.
local function close(V, gate)
  redis.call('ZREM', K.waiting(V), gate)
  redis.call('ZREM', K.ready(V), gate)
  redis.call('SREM', K.gates(V), gate)
end

-- Remove domains without entries from their gates.
function changes.leave(V, domains)
  local gate_of = gates.of(domains)
  for i, domain in ipairs(domains) do
    local gate = gate_of[i]
    local key = gate and K.at_gate(V, gate)
    if gate and redis.call('ZREM', key, domain) == 1 and redis.call('EXISTS', key) == 0 then
      close(V, gate)
    end
  end
end

-- Note the gate of a domain by its address; '': it has none. It no longer waits in the one that it had.
function changes.locate(domain, gate)
  local known = gates.of({ domain })[1]
  if known == gate or not known and gate == '' then
    return
  elseif gate == '' then
    redis.call('HDEL', K.located, domain)
  else
    if not known and redis.call('HLEN', K.located) >= MOST_LOCATED then
      redis.call('HDEL', K.located, redis.call('HRANDFIELD', K.located))
    end
    redis.call('HSET', K.located, domain, gate)
  end
  for _, S in ipairs(known and redis.call('SMEMBERS', K.spiders) or {}) do
    for _, V in ipairs(views_of(S)) do
      local key = K.at_gate(V, known)
      if redis.call('ZREM', key, domain) == 1 then
        redis.call('ZADD', K.waiting(V), int(now), domain)
        if redis.call('EXISTS', key) == 0 then
          close(V, known)
        end
      end
    end
  end
end

-- Move the domains that wait in a gate of a view into `w`, all due: they may belong to another one now.
function changes.drain(V, gate)
  local AT_ONCE = 1000
  local key = K.at_gate(V, gate)
  repeat
    local found, args = redis.call('ZPOPMIN', key, AT_ONCE), {}
    for i = 1, #found, 2 do
      args[i], args[i + 1] = int(now), found[i]
    end
    if #args > 0 then
      redis.call('ZADD', K.waiting(V), 'LT', unpack(args))
    end
  until #found == 0
  close(V, gate)
end

-- Delete the gates of a view, and forget the domains that wait there.
function changes.drop(V)
  for _, gate in ipairs(redis.call('SMEMBERS', K.gates(V))) do
    redis.call('UNLINK', K.at_gate(V, gate))
  end
  redis.call('UNLINK', K.gates(V))
end

function inside.changes()
  return changes
end

return changes
