#!lua flags=allow-oom
-- belong: note the cluster that the frontier belongs to: the prefix of its topics, and the node with its rules.
-- Guarantee: the first process to note a value decides; another value changes it only by force. A process
--   that disagrees about one notes neither, and nothing is noted without a frontier.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 'note' or 'force', 2 prefix of the topics, 3 node in ZooKeeper ('' without ZooKeeper).
-- Returns: packed {prefix, node}, as they were before the call; '' if unknown.
-- Cost: four commands at most.
--- include: keys
local mode, prefix, node = ARGV[1], ARGV[2], ARGV[3]
local before = redis.call('HMGET', K.meta, 'prefix', 'node')
local known = { before[1] or '', before[2] or '' }

local function agrees(theirs, ours)
  return theirs == '' or ours == '' or theirs == ours
end

local is_there = redis.call('HEXISTS', K.meta, 'layout') == 1
if mode == 'force' and not is_there then
  return redis.error_reply('NOFRONTIER Redis holds no frontier')
end
local may_note = mode == 'note' and agrees(known[1], prefix) and agrees(known[2], node)
if is_there and (mode == 'force' or may_note) then
  redis.call('HSET', K.meta, 'prefix', prefix)
  if node ~= '' then
    redis.call('HSET', K.meta, 'node', node)
  end
end
return cmsgpack.pack(known)
