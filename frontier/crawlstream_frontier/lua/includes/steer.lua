-- What a person does to a run under way: pause, resume, reprioritize.
-- Guarantee: no queue is touched here. A paused run admits and keeps everything, and its bands leave
--   the index as their turns come. `revisit` puts the bands of a resumed or reprioritized run into
--   the index where they stand, in steps. All of it ends with the run. A pause with an end is over when
--   that time has come by Redis' clock: `tend` resumes the run.
-- Fields of `x:<c>`: paused ('1'), paused_until (epoch s, of a pause with an end), top (highest priority
--   of a seed of the run), steered (the life in which somebody has steered it last).
-- Needs: clock, ledger, bands. Cost: a few commands each.
local function revisit_soon(c)
  redis.call('HSET', K.revisit, c, '0')
  wake_tend_by(now)
end

-- Remember the highest priority that the run was fed with: `reprioritize` moves it.
local function note_seed_priority(c, priority)
  local crawl = crawl_of(c)
  crawl.top = crawl.top or tonumber(redis.call('HGET', K.ledger(c), 'top') or NEVER)
  if priority > crawl.top then
    crawl.top = priority
    redis.call('HSET', K.ledger(c), 'top', int(priority))
  end
end

-- Somebody has steered the run in this life: what was told before it began does not count any more.
local function note_steered(c)
  redis.call('HSET', K.ledger(c), 'steered', int(life))
end

local function was_steered(c)
  return redis.call('HGET', K.ledger(c), 'steered') == int(life)
end

local steer = {}

-- `until_s` in epoch seconds; 0: until somebody resumes it. The last word counts.
function steer.pause(c, until_s)
  note_pause(c, until_s)
end

-- A run that lost its last entry while it was paused becomes idle now, not before.
function steer.resume(c)
  if forget_pause(c) then
    redis.call('ZREM', K.idle, c)
    touched[c] = true
    revisit_soon(c)
  end
end

-- Everything of the run moves by as much as its best seed would have to move to `priority`.
function steer.reprioritize(c, priority)
  local top = tonumber(redis.call('HGET', K.ledger(c), 'top') or priority)
  redis.call('HSET', K.shifts, c, int(priority - top))
  shifts = nil
  revisit_soon(c)
end
