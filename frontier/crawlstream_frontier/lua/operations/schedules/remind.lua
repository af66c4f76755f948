#!lua flags=allow-oom
-- remind: give a Redis that is new, or was restored from an old copy, the records of occasions that took
--   effect before.
-- Guarantee: safe to repeat; occasions that Redis knows stay known.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 parts of occasions, packed {{occasion, part, its bits, epoch seconds at which it ends} …}
-- Returns: number of parts.
-- Cost: two commands per part.
--- include: keys

-- Return a text with the bits of both texts.
local function union(a, b)
  local bytes = {}
  for i = 1, math.max(#a, #b) do
    bytes[i] = string.char(bit.bor(string.byte(a, i) or 0, string.byte(b, i) or 0))
  end
  return table.concat(bytes)
end

local parts = cmsgpack.unpack(ARGV[1])
for _, told in ipairs(parts) do
  local occasion, part, bits, expires_at = unpack(told)
  local key = K.occasion(occasion, string.format('%d', part))
  local known = redis.call('GET', key)
  if known then
    redis.call('SET', key, union(known, bits), 'KEEPTTL')
  else
    redis.call('SET', key, bits, 'EXAT', string.format('%d', expires_at))
  end
end
return #parts
