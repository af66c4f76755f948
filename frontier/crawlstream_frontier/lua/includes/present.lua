-- Where one of several partitions is not, nothing is done, but NOFRONTIER answered: for operations without
-- the clock, which says the same by itself. (Of a frontier of one partition some begin before it is there.)
-- Cost: one command, in a frontier of several partitions.
--- include: keys
if string.find(K.meta, '.', 1, true) and redis.call('EXISTS', K.meta) == 0 then
  return redis.error_reply('NOFRONTIER Redis does not hold this partition')
end
