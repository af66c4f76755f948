#!lua flags=allow-oom
-- count: report a partition's credits of a page limit to the coordinator of the crawl.
-- Guarantee: from now on answers from an earlier epoch of the coordinator than the given one are ignored. Credits that
--   nothing here waits for are returned on request; the account then gets a new number.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {name, generation, life of the coordinator|0, is anything to be given back}
-- Returns: packed {life, number, drawn, unspent, limit, wanted, ready} as of `draw_of`; without a context
--   all but life are 0
-- Cost: four commands.
--- include: clock
--- include: ledger
--- include: crawls
--- include: credits

local name, generation, home_life, is_return = unpack(cmsgpack.unpack(ARGV[1]))
local record = load_name(name)
local draw = { life, 0, 0, 0, 0, 0, 0 }
if record and record.live and record.run == generation then
  local account = accounts().get(record.c)
  local _, needed = draw_of(record.c)
  local surplus = is_return and account.unspent - needed or 0
  if surplus > 0 then
    account.number, account.drawn, account.unspent = account.number + 1, account.drawn - surplus, needed
  end
  if surplus > 0 or home_life > account.home_life then
    account.home_life = math.max(account.home_life, home_life)
    accounts().save(record.c)
  end
  draw = draw_of(record.c)
end
save_clock()
return cmsgpack.pack(draw)
