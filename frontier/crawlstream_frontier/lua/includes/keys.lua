-- Every key, and every channel, below the common prefix P; docs/keys.md describes their contents.
-- Guarantee: no other Lua builds a key, so that each has its pattern here, and only here.
-- The returned expression replaces each call in the text that Redis gets (`sources.py`): a function
--   would be one of the 60 upvalues that a function may have, and keys are built all the time.
-- S spider, V view, c number of a crawl, tag `<c>/<priority>`, place `<topic UUID>:<Kafka partition>`.
local P = KEYS[1]
local K = {}

-- The frontier as a whole.
K.layout = P .. 'layout'
K.meta = P .. 'm'
K.moved = P .. 'moved'
K.positions = P .. 'positions'
K.epochs = P .. 'epochs'
K.refused = P .. 'refused'
K.again = P .. 'again'
K.ahead = P .. 'ahead'
K.attempts = P .. 'attempts'
K.overflow = P .. 'overflow'
K.lost = P .. 'lost'
K.behind = P .. 'behind'
K.totals = P .. 'totals'
K.rules = P .. 'rules'
K.table = P .. 'table'
K.proxies = P .. 'proxies'
K.revise = P .. 'revise'
K.spiders = P .. 'spiders'
K.outbox = P .. 'outbox'
K.actions = P .. 'actions'
function K.views(S) return P .. 'views:' .. S end

-- Crawls.
K.names = P .. 'names'
K.idle = P .. 'idle'
K.expiry = P .. 'expiry'
K.spending = P .. 'spending'
K.forget = P .. 'forget'
K.shifts = P .. 'shifts'
K.pauses = P .. 'pauses'
K.stalled = P .. 'stalled'
K.sweep = P .. 'sweep'
K.revisit = P .. 'revisit'
K.abandon = P .. 'abandon'
function K.revisit_domains(c) return P .. 'revisit:' .. c end
function K.abandon_domains(c) return P .. 'abandon:' .. c end
function K.ledger(c) return P .. 'x:' .. c end
function K.domains(c) return P .. 'k:' .. c end
function K.profiles(c) return P .. 'f:' .. c end
function K.slab(c, slab) return P .. 's:' .. c .. ':' .. slab end
function K.own_set(c, domain, i) return P .. 'e:' .. c .. ':' .. domain .. ':' .. i end
function K.linked(c, domain) return P .. 'i:' .. c .. ':' .. domain end
function K.used(c) return P .. 'used:' .. c end
function K.spills(c) return P .. 'spills:' .. c end
function K.stop(name) return P .. 'stop:' .. name end

-- Partitions: the registry at the coordinator of crawls, and the additional data of a context.
K.registry = P .. 'reg'
K.open = P .. 'open'
K.expiring = P .. 'expiring'
K.forgetting = P .. 'forgetting'
K.tell = P .. 'tell'
K.closing = P .. 'closing'
K.closed = P .. 'closed'
K.enrolled = P .. 'enrolled'
K.taken = P .. 'taken'
K.late = P .. 'late'
K.budgeted = P .. 'budgeted'
K.credits = P .. 'credits'
function K.home_profiles(name) return P .. 'profiles:' .. name end
function K.need(c) return P .. 'need:' .. c end
function K.wanted(c) return P .. 'wanted:' .. c end
function K.credit(c) return P .. 'credit:' .. c end
function K.limbo(c) return P .. 'limbo:' .. c end
function K.limbo_marks(c) return P .. 'limbo_marks:' .. c end
function K.limbo_domains(c) return P .. 'limbo_domains:' .. c end

-- Schedules.
K.schedules = P .. 'schedules'
K.skipping = P .. 'skipping'
function K.schedule(field) return P .. 'schedule:' .. field end
function K.occasion(occasion, part) return P .. 'occasion:' .. occasion .. ':' .. part end

-- Queues.
function K.band(S, tag, domain) return P .. 'b:' .. S .. ':' .. tag .. ':' .. domain end
function K.tail(S, tag, domain) return P .. 'bt:' .. S .. ':' .. tag .. ':' .. domain end
function K.chunks(S, tag, domain) return P .. 'bc:' .. S .. ':' .. tag .. ':' .. domain end
function K.tags(S) return P .. 'o:' .. S end
function K.several(S, domain) return P .. 'q:' .. S .. ':' .. domain end
function K.waiting(V) return P .. 'w:' .. V end
function K.ready(V) return P .. 'r:' .. V end
function K.parked(V) return P .. 'p:' .. V end
function K.gates(V) return P .. 'gates:' .. V end
function K.at_gate(V, gate) return P .. 'a:' .. V .. ':' .. gate end
K.members = P .. 'members'
K.located = P .. 'located'
function K.delayed_crawls(S) return P .. 'y:' .. S end
function K.delayed(S, c) return P .. 'y:' .. S .. ':' .. c end
K.states = P .. 't'
K.latency = P .. 'latency'
K.spent = P .. 'v'

-- Shelves.
K.shelf = P .. 'shelf'
K.shelve = P .. 'shelve'
K.restock = P .. 'restock'
K.discarded = P .. 'discarded'
K.doomed = P .. 'doomed'
K.orphans = P .. 'orphans'
K.abandoned_chunks = P .. 'abandoned_chunks'
K.wake_shelf = P .. 'wake:shelf'
function K.parts(c) return P .. 'parts:' .. c end
function K.chunk(id) return P .. 'chunk:' .. id end

-- Workers.
K.workers = P .. 'workers'
function K.holds(worker) return P .. 'h:' .. worker end
function K.recalled(worker) return P .. 'recalled:' .. worker end
function K.asleep(V) return P .. 'z:' .. V end
K.proxy_health = P .. 'proxies:health'
K.proxy_rests = P .. 'proxies:rest'
K.proxy_blind = P .. 'proxies:blind'
K.proxy_news = P .. 'proxies:news'
K.proxy_workers = P .. 'proxies:workers'
function K.proxy_calls(worker) return P .. 'proxies:calls:' .. worker end
function K.proxy_used(hour) return P .. 'proxies:used:' .. hour end
function K.proxy_spent(day) return P .. 'proxies:spent:' .. day end
function K.tls(pool, domain) return P .. 'tls:' .. pool .. ':' .. domain end
K.purses = P .. 'purses'
function K.purse(purse) return P .. 'purse:' .. purse end
function K.purse_open(purse) return P .. 'purse:open:' .. purse end
function K.purse_prices(purse) return P .. 'purse:prices:' .. purse end
function K.purse_origins(purse, day) return P .. 'purse:origins:' .. purse .. ':' .. day end
function K.purse_distrusted(purse) return P .. 'purse:distrusted:' .. purse end
function K.robots(origin) return P .. 'robots:' .. origin end
K.robots_copies = P .. 'robots'
K.robots_bytes = P .. 'robots_bytes'
function K.scrapes(site) return P .. 'scrapes:' .. site end
function K.scrapes_at(site) return P .. 'scrapes_at:' .. site end
function K.scrapes_of(client) return P .. 'scrapes_of:' .. client end
function K.scrape(id) return P .. 'scrape:' .. id end
function K.guard(domain) return P .. 'g:' .. domain end
K.guards = P .. 'guards'
K.guarded = P .. 'guarded'
K.wake_tend = P .. 'wake:tend'
K.wake_homes = P .. 'wake:homes'
function K.wake_channel(worker) return P .. 'wake:' .. worker end
