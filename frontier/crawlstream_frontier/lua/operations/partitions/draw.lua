#!lua flags=allow-oom
-- draw: record accounts of credits in the coordinator of a crawl, and grant credits to one partition.
-- Guarantee: safe to repeat, in any order: an account counts if it is not older than the known one, and
--   more is granted only to a partition that has received all earlier grants. In a new epoch of the coordinator
--   nothing is granted before all partitions were counted. A limit is reported as reached only when all of it is
--   spent: unspent credits can still be returned.
-- `credits` HASH "<name> <generation>" -> packed {life, accounts {partition -> {life, number, drawn, unspent}}}
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {name, generation, life of the coordinator in which these were counted|0, accounts, caller, limit,
--   wanted}
--   account {partition, life, number, drawn, unspent}; the caller's is among them
-- Returns: packed {'OK', life, grant}, {'COUNT', life} if partitions must be counted first, {'OVER', life} if
--   the generation is over, {'PENDING', life} if that is not known yet, or {'RESTORE', life}
--   grant   {life, number, total, rank, elsewhere, limit that is reached|0, partitions that have unspent credits}: for
--           the caller's account; {} without a caller
-- Cost: two commands.
--- include: clock
--- include: ledger
--- include: registry

local name, generation, counted_in, accounts, asker, limit, wanted = unpack(cmsgpack.unpack(ARGV[1]))
local LIFE, NUMBER, DRAWN, UNSPENT = 1, 2, 3, 4
local field, partitions = name .. ' ' .. int(generation), amount_of_partitions()
local packed = redis.call('HGET', K.credits, field)
local book = packed and cmsgpack.unpack(packed) or {}
if book.life ~= life then
  book = { life = life, accounts = {} }
end

local function is_older(one, other)
  return standings().is_before(one[LIFE], one[NUMBER], other[LIFE], other[NUMBER])
end

local function hear(partition, account)
  local known = book.accounts[partition]
  if not known then
    book.accounts[partition] = counted_in == life and account or nil
  elseif is_older(known, account) then
    book.accounts[partition] = account
  elseif not is_older(account, known) and account[DRAWN] == known[DRAWN] then
    known[UNSPENT] = math.min(known[UNSPENT], account[UNSPENT])
  end
end

-- Return the credits drawn, and those spent, by all partitions.
local function sums()
  local drawn, spent = 0, 0
  for _, account in pairs(book.accounts) do
    drawn, spent = drawn + account[DRAWN], spent + account[DRAWN] - account[UNSPENT]
  end
  return drawn, spent
end

-- Grant the credits that a partition waits for, as far as there are any, and some ahead.
local function grant(known)
  local left = math.max(limit - sums(), 0)
  local more = math.min(wanted, left)
  more = more + math.floor((left - more) / (2 * partitions))
  known[DRAWN], known[UNSPENT] = known[DRAWN] + more, known[UNSPENT] + more
  return more
end

local function answer_to(asked)
  local known, more = book.accounts[asker], 0
  if wanted > 0 and asked[DRAWN] == known[DRAWN] and not is_older(asked, known) then
    more = grant(known)
  end
  local holders, rank, spent = {}, sums()
  for partition = 0, partitions - 1 do
    if more < wanted and book.accounts[partition][UNSPENT] > 0 then
      holders[#holders + 1] = partition
    end
  end
  return { known[LIFE], known[NUMBER], known[DRAWN], rank, spent - known[DRAWN] + known[UNSPENT],
    wanted > 0 and spent >= limit and limit or 0, holders }
end

local function answer()
  local g = registered(name).g
  if not is_restored() then
    return { 'RESTORE', life }
  elseif generation ~= g then
    return { generation < g and 'OVER' or 'PENDING', life }
  end
  local asked
  for _, account in ipairs(accounts) do
    hear(account[1], { unpack(account, 2) })
    asked = account[1] == asker and { unpack(account, 2) } or asked
  end
  local known = 0
  for _ in pairs(book.accounts) do
    known = known + 1
  end
  local told = known == partitions and { 'OK', life, asked and answer_to(asked) or {} } or { 'COUNT', life }
  redis.call('HSET', K.credits, field, cmsgpack.pack(book))
  return told
end

local told = answer()
save_clock()
return cmsgpack.pack(told)
