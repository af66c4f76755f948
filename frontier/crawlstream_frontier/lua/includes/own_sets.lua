-- Number of the set that has a fingerprint, among the own sets of a domain (see `dedupe`): linear hashing.
-- Needs: nothing.
local OWN_SPLIT_FROM, OWN_PER_SET = 400, 209

local function sets_for(own)
  return own <= OWN_SPLIT_FROM and 1 or math.ceil(own / OWN_PER_SET)
end

-- Return the index of the set, among `sets`, that has a fingerprint (linear hashing by its last digits).
local function set_of(fingerprint, sets)
  if sets == 1 then
    return 0
  end
  local hash = tonumber(string.sub(fingerprint, -9)) or 0
  if hash < 0 then
    hash = -hash
  end
  local power = 1
  while power * 2 <= sets do
    power = power * 2
  end
  local bucket = hash % (power * 2)
  return bucket < sets and bucket or hash % power
end
