#!lua flags=allow-oom
-- reread: note that partitions have the seeds of consecutive records which had to be read again.
-- Guarantee: safe to repeat.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {topic uuid, kafka partition, start, next}
-- Returns: 1
-- Cost: two commands.
--- include: clock
--- include: ledger
--- include: crawls
--- include: again

local topic, kafka_partition, start, next_offset = unpack(cmsgpack.unpack(ARGV[1]))
note_read_again(topic .. ':' .. int(kafka_partition), start, next_offset)
save_clock()
return 1
