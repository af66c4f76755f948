#!lua
-- rotate: move a site to the next TLS profile of the pool after a handshake failed.
-- Guarantee: moves on once per profile, however many workers report its failures: if others have moved on in
--   the meantime, their profile stays. The first profile follows the last, and needs no note.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 pool, 2 domain, 3 the profile that has failed, 4 the pool's profiles in their order, packed, 5 ms
--   for which the profile is stored.
-- Returns: packed {profile, moved}: the profile from now on; 1 if it has moved on, else 0.
-- Cost: two commands.
--- include: present
local key, failed, profiles = K.tls(ARGV[1], ARGV[2]), ARGV[3], cmsgpack.unpack(ARGV[4])
local noted, place = redis.call('GET', key), 1
for i, name in ipairs(profiles) do
  if name == noted then
    place = i
  end
end
if profiles[place] ~= failed then
  return cmsgpack.pack({profiles[place], 0})
end
local coming = profiles[place % #profiles + 1]
if coming == profiles[1] then
  redis.call('UNLINK', key)
else
  redis.call('SET', key, coming, 'PX', ARGV[5])
end
return cmsgpack.pack({coming, 1})
