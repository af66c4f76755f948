-- Gates that domains have by names above them, or by their addresses (see `gates`).
-- Part of `gates`: a function that is called once, when a call needs it.
local MOST_NAMES, gate_above, sizes = 4000, {}, {}
for labels in string.gmatch(string.match(sites, ' =([%d.]*)'), '%d+') do
  sizes[#sizes + 1] = tonumber(labels)
end

-- Return where the labels of a name start.
local function labels_of(name)
  local starts, at = { 1 }, find(name, '.', 1, true)
  while at do
    starts[#starts + 1] = at + 1
    at = find(name, '.', at + 1, true)
  end
  return starts
end

-- Add the names above domain i that members may have, the longest first.
local function add_above(above, places, domain, i)
  local starts = labels_of(domain)
  for j = 1, #sizes do
    local start = sizes[j] < #starts and starts[#starts - sizes[j] + 1]
    if start then
      above[#above + 1], places[#above + 1] = string.sub(domain, start), i
    end
  end
end

-- Look up the gates of names that are not known yet. Names above domains recur.
local function know(names)
  local missing = {}
  for i = 1, #names do
    if gate_above[names[i]] == nil then
      gate_above[names[i]], missing[#missing + 1] = false, names[i]
    end
  end
  for from = 1, #missing, MOST_NAMES do
    local to = math.min(from + MOST_NAMES - 1, #missing)
    for i, gate in ipairs(redis.call('HMGET', K.members, unpack(missing, from, to))) do
      gate_above[missing[from + i - 1]] = gate
    end
  end
end

-- Add the gates of these places of `domains` to `found`; return one of them.
local function add(domains, others, found)
  local above, places, any = {}, {}, nil
  for _, i in ipairs(sizes[1] and others or {}) do
    add_above(above, places, domains[i], i)
  end
  know(above)
  for j = 1, #above do
    found[places[j]] = found[places[j]] or gate_above[above[j]]
    any = any or found[places[j]]
  end
  local names, left = {}, {}
  for _, i in ipairs(locates and others or {}) do
    if not found[i] then
      names[#names + 1], left[#left + 1] = domains[i], i
    end
  end
  for j, gate in ipairs(#names > 0 and redis.call('HMGET', K.located, unpack(names)) or {}) do
    found[left[j]], any = gate, gate or any
  end
  return any
end

function gates.further()
  return add
end

return add
