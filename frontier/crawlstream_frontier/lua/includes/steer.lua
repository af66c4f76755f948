-- Commands for a running run: pause, resume, reprioritize.
-- Guarantee: no queue is changed here. A paused run admits and keeps everything, and its bands leave
--   the index in their turns. `revisit` indexes the bands of a resumed or reprioritized run at their
--   present priorities, in steps. Pause and shift end with the run. A pause with an end is over at
--   that time by Redis' clock: `tend` resumes the run.
-- Fields of `x:<c>`: paused ('1'), paused_until (epoch s, of a pause with an end), top (highest
--   priority of a seed of the run), steered (the epoch of Redis in which it was last steered).
-- Needs: clock, ledger, bands. Cost: a few commands each.
local function revisit_soon(c)
  redis.call('HSET', K.revisit, c, '0')
  wake_tend_by(now)
end

-- Note the highest priority of the run's seeds: `reprioritize` moves it.
local function note_seed_priority(c, priority)
  local crawl = crawl_of(c)
  crawl.top = crawl.top or tonumber(redis.call('HGET', K.ledger(c), 'top') or NEVER)
  if priority > crawl.top then
    crawl.top = priority
    redis.call('HSET', K.ledger(c), 'top', int(priority))
  end
end

-- Note that the run was steered in this epoch: states from before are outdated.
local function note_steered(c)
  redis.call('HSET', K.ledger(c), 'steered', int(life))
end

local function was_steered(c)
  return redis.call('HGET', K.ledger(c), 'steered') == int(life)
end

local steer = {}

-- Pause a run until `until_s` in epoch seconds; 0: until it is resumed. The last call counts.
function steer.pause(c, until_s)
  note_pause(c, until_s)
end

-- Resume a run. If it lost its last entry while it was paused, it becomes idle now.
function steer.resume(c)
  if forget_pause(c) then
    redis.call('ZREM', K.idle, c)
    touched[c] = true
    revisit_soon(c)
  end
end

-- Shift all entries of the run by the distance of its best seed from `priority`.
function steer.reprioritize(c, priority)
  local top = tonumber(redis.call('HGET', K.ledger(c), 'top') or priority)
  redis.call('HSET', K.shifts, c, int(priority - top))
  shifts = nil
  revisit_soon(c)
end
