-- Answer NOFRONTIER and do nothing where a partition of several is missing: for operations without the
-- clock, which does the same. (With one partition, some operations run before the frontier exists.)
-- Cost: one command, in a frontier of several partitions.
--- include: keys
if string.find(K.meta, '.', 1, true) and redis.call('EXISTS', K.meta) == 0 then
  return redis.error_reply('NOFRONTIER Redis does not hold this partition')
end
