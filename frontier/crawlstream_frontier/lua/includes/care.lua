-- Care: what a site asks for itself, by its answers and its robots.txt.
-- Guarantee: it only ever delays requests. Strikes (refusals, and silences from the 5th in a row on) count since the
--   last answer: each delays requests for as long as the site asked for, or twice as long as the one before, and then a
--   single request at a time probes it until an answer comes. Only requests granted after the last strike (or rest)
--   change the count.
-- Its numbers are in the state of the domain; a state without a not_before has none.
-- Needs: throttle, gentle. Cost: arithmetic.
local take_care, note_robots, heed, is_unreachable, care_of

do
local LONG_AGO, MOST, SILENCE, SILENCES_A_STRIKE, RESTS = 1, 255, 3, 5, -1  -- A reaction of 2 is a refusal.
local FIRST_PAUSE_MS, LONGEST_PAUSE_MS, LONGEST_ASKED_MS = 1000, 300000, 3600000
local REFUSED_TOO_LONG_MS, SILENT_TOO_LONG_MS = 86400000, 900000
local LONGEST_DELAY_MS, DELAY_KEPT_MS = 300000, 86400000

-- Begin the care of a domain.
function take_care(state)
  if state[NOT_BEFORE] == 0 then
    state[NOT_BEFORE] = LONG_AGO
    state[STRIKES], state[SILENCES], state[STRUCK_AT], state[SINCE], state[DELAY], state[DELAY_UNTIL] = 0, 0, 0, 0, 0, 0
  end
end

-- Note the Crawl-delay of a robots.txt that a grant was used for: `delay` ms (0: none). With several hosts in a domain
-- the slowest counts. If it was the first request to a domain, the page may follow at once. Together they count as
-- two: the next pause is twice as long. A site that wants no visits for `rest` ms refuses nothing by that.
function note_robots(state, delay, rest)
  if rest > 0 then
    take_care(state)
    state[NOT_BEFORE] = math.max(state[NOT_BEFORE], now + math.min(rest, LONGEST_ASKED_MS))
    state[STRUCK_AT], state[SINCE] = state[NOT_BEFORE], state[STRIKES] > 0 and state[SINCE] or RESTS
  elseif delay > 0 then
    take_care(state)
    local known = state[DELAY_UNTIL] > wall and state[DELAY] or 0
    state[DELAY] = math.min(math.max(known, delay), LONGEST_DELAY_MS)
    state[DELAY_UNTIL] = wall + DELAY_KEPT_MS
    state.rule = slowed(state, state.rule)
  end
  if state[BONUS] == FIRST_OUT and state.rule.moderated and state.rule.hits > 1 then
    state[BONUS] = BONUS_DUE
  end
  changed_states[state.key] = state
end

local function strike(state, pause)
  state[STRIKES], state[STRUCK_AT] = math.min(state[STRIKES] + 1, MOST), now
  if pause == 0 then
    pause = math.min(FIRST_PAUSE_MS * 2 ^ (state[STRIKES] - 1), LONGEST_PAUSE_MS)
  end
  state[NOT_BEFORE] = math.max(state[NOT_BEFORE], now + pause)
end

-- Return true if a domain has not answered for so long that its entries may fail.
function is_unreachable(state)
  local is_struck = state[NOT_BEFORE] ~= 0 and state[STRIKES] > 0
  local too_long = is_struck and state[SILENCES] > 0 and SILENT_TOO_LONG_MS or REFUSED_TOO_LONG_MS
  return is_struck and now - state[SINCE] >= too_long
end

-- Record a site's reaction to the request of a lease, or to a reserved one (without a lot): an answer, a refusal (with
-- a pause of `wait` ms, or until `moment` in epoch ms; 0: the site gave none), or silence; and the time to its first
-- byte, if it is measured.
function heed(hold, state, what, wait, moment, first_byte_ms)
  if first_byte_ms and made_gentle then
    made_gentle.note(state, what == ANSWER, first_byte_ms)
  end
  if what == ANSWER and state[NOT_BEFORE] == 0 then
    return
  end
  take_care(state)
  changed_states[state.key] = state
  local is_news = hold.since >= state[STRUCK_AT]
  if what == ANSWER then
    if is_news then
      state[STRIKES], state[SILENCES], state[SINCE] = 0, 0, 0
      state[NOT_BEFORE] = state[DELAY_UNTIL] > wall and LONG_AGO or 0
    end
    return
  end
  if state[SINCE] <= 0 or (what == SILENCE and state[SILENCES] == 0) then
    state[SINCE] = now
  end
  state[SILENCES] = what == SILENCE and math.min(state[SILENCES] + 1, MOST) or 0
  if what == SILENCE and state[SILENCES] < SILENCES_A_STRIKE then
    return
  end
  local asked = math.min(math.max(wait, moment > 0 and moment - wall or 0, 0), LONGEST_ASKED_MS)
  if is_news then
    strike(state, asked)
  else
    state[NOT_BEFORE] = math.max(state[NOT_BEFORE], now + asked)
  end
  local c = hold.lot and hold.lot.c
  if c and is_news and is_unreachable(state) and crawl_of(c).state == 'running' then
    redis.call('HSETNX', K.abandon, c, '0')
    wake_tend_by(now)
  end
end

-- Return to display: strikes, silences, ms without an answer, Crawl-delay in ms while known, 1 while outside its hours.
function care_of(state)
  if state[NOT_BEFORE] == 0 then
    return 0, 0, 0, 0, 0
  end
  return state[STRIKES], state[SILENCES], state[SINCE] > 0 and now - state[SINCE] or 0,
    state[DELAY_UNTIL] > wall and state[DELAY] or 0, state[SINCE] == RESTS and state[NOT_BEFORE] > now and 1 or 0
end

-- Return the time until which the care of a domain without pages is kept.
function care_kept_until(state)
  local remembered = state[STRIKES] > 0 and LONGEST_PAUSE_MS or 0
  return math.max(state[NOT_BEFORE] + remembered, now + state[DELAY_UNTIL] - wall)
end
end
