#!lua flags=allow-oom
-- count: a home is told what a partition has of the credits of a page limit.
-- Guarantee: answers of an earlier life of the home than the one that is named do not count from now on. What is to
--   be given back is what nothing here waits for; the account has another number then.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {name, generation, life of the home|0, is anything to be given back}
-- Returns: packed {life, number, drawn, unspent, limit, wanted, ready} as of `draw_of`; of a context that is not there
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
