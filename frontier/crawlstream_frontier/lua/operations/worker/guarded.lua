#!lua flags=allow-oom
-- guarded: verdicts of persons on families of URLs, for all sites.
-- Guarantee: a verdict stays until a person replaces it or takes it back. Each change has a new version, so a
--   reader that has the latest one gets nothing more.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {verb, arguments of the verb}
--   set     {site, family, hash of its name, verdict, author}
--   forget  {site, family}
--   read    {version that the reader has}
-- `guarded` HASH `<site> <family>` -> packed {hash, verdict, author, epoch s}; `#`: the version.
-- Returns: packed {answer, …}
--   set: 'ok', or 'too_many' of the site or in all; forget: 'ok', or 'unknown'
--   read: version, and if it is another one the fields of `guarded` as of HGETALL
-- Cost: one command to read an unchanged version, else four; at most MOST fields are read.
--- include: present
local MOST, MOST_OF_SITE = 1000, 64
local verb, args = unpack(cmsgpack.unpack(ARGV[1]))

-- Return whether there is room for one more verdict on a site.
local function has_room(site)
  local fields, of_site = redis.call('HKEYS', K.guarded), 0
  for _, field in ipairs(fields) do
    if string.find(field, site .. ' ', 1, true) == 1 then
      of_site = of_site + 1
    end
  end
  return #fields < MOST and of_site < MOST_OF_SITE
end

local function change()
  redis.call('HINCRBY', K.guarded, '#', 1)
  return { 'ok' }
end

local function set(site, family, hash, verdict, author)
  local field = site .. ' ' .. family
  if redis.call('HEXISTS', K.guarded, field) == 0 and not has_room(site) then
    return { 'too_many' }
  end
  local at = tonumber(redis.call('TIME')[1])
  redis.call('HSET', K.guarded, field, cmsgpack.pack({ hash, verdict, author, at }))
  return change()
end

local function forget(site, family)
  return redis.call('HDEL', K.guarded, site .. ' ' .. family) == 1 and change() or { 'unknown' }
end

local function read(version)
  local latest = redis.call('HGET', K.guarded, '#') or ''
  return { latest, latest ~= version and redis.call('HGETALL', K.guarded) or {} }
end

return cmsgpack.pack(({ set = set, forget = forget, read = read })[verb](unpack(args)))
