-- Calls a policy: gets places and libraries, gives the functions that the host calls.
local place, policylib = ...
local ffi = require "ffi"
local forward, packets, policies = policylib.forward, policylib.packets, policylib.policies
local at = ffi.cast("uint32_t *", place.at)
-- A policy may replace what is global.
local type, load, select, tostring, xpcall, jit = type, load, select, tostring, xpcall, jit
local traceback, concat, sub, G = debug.traceback, table.concat, string.sub, _G

local M = {}

-- Never asks the object itself for words: `__tostring` would be more of the policy's code.
function M.handler(object)
  local kind = type(object)
  if kind == "number" then
    object = tostring(object)
  elseif kind ~= "string" then
    object = "the error object is a " .. kind
  end
  return traceback(object, 2)
end

-- What a policy returns is true or false as for Lua: hosts of C ask by `lua_toboolean`.
-- A trace of its own: a loop of one round would never be compiled, and after some tries
-- not even where it has more rounds.
function M.one(i)
  at[0] = i
  forward[i] = not not G.lookup_policy(packets[i], policies[i])
end

function M.each(first, n)
  local lookup_policy = G.lookup_policy
  for i = first, n - 1 do
    at[0] = i
    forward[i] = not not lookup_policy(packets[i], policies[i])
  end
end

-- A policy that takes a batch may begin anywhere in it: no slot.
function M.batch(n)
  at[0] = 0xffffffff
  G.lookup_policy_batch(n)
end

-- False where a policy has no such function.
function M.punish(i)
  local punish = G.lookup_frag_punish_policy
  if punish == nil then return false end
  at[0] = i
  punish(policies[i])
  return true
end

-- Compiled code passes lines unseen: for a while nothing is compiled.
function M.compile(n)
  if n == 0 then
    jit.off()
    jit.flush()
  else
    jit.on()
  end
end

-- What the policy defines: 1 lookup_policy, 2 lookup_policy_batch.
function M.defines()
  return (type(G.lookup_policy) == "function" and 1 or 0)
    + (type(G.lookup_policy_batch) == "function" and 2 or 0)
end

local function words(...)
  local list = {}
  for i = 1, select("#", ...) do list[i] = tostring((select(i, ...))) end
  return concat(list, "\t")
end

-- No bytecode, which LuaJIT does not check. Both give whether it went well, and a text.
function M.load(source, name)
  local f, why = load(source, name, "t")
  if not f then return nil, why end
  local ok
  ok, why = xpcall(f, M.handler)
  return ok, why
end

-- Runs a chunk; its results in words.
function M.exec(source)
  local f, why = load(source, "=exec", "t")
  if not f then return false, why end
  local ok, text = xpcall(function() return sub(words(f()), 1, 65535) end, M.handler)
  return ok, text
end

return M
