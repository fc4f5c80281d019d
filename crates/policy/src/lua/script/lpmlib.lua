-- Tables of prefixes: the global `lpmlib`. `native.rs` does the work.
local native, library = ...
local ffi = require "ffi"

ffi.cdef [[
struct rutter_lpm;
struct rutter_lpm6;
struct rutter_parsed { uint32_t v4; struct in6_addr v6; int32_t len; };
]]
local cast, gc = ffi.cast, ffi.gc
local function bind(family, name, result, args)
  return cast(result .. "(*)(" .. args .. ")", native[family .. name])
end
local parse = bind("", "parse", "bool", "const char *, size_t, int32_t, struct rutter_parsed *")
local why = bind("", "why", "const char *", "void *")

local M = {}
local parsed = ffi.new "struct rutter_parsed"
local text = ffi.new "char[64]"

local function prefix(given, family)
  if type(given) ~= "string" or not parse(given, #given, family, parsed) then
    error(("%s is no IPv%d prefix"):format(tostring(given), family), 3)
  end
end

-- The address in network order, and the length.
function M.str_to_prefix(given)
  prefix(given, 4)
  return parsed.v4, parsed.len
end
function M.str_to_prefix6(given)
  prefix(given, 6)
  return ffi.new("struct in6_addr", parsed.v6), parsed.len
end

local function depth_of(depth, most)
  if type(depth) ~= "number" or depth % 1 ~= 0 or depth < 0 or depth > most then
    error(("%s is no length from 0 to %d"):format(tostring(depth), most), 3)
  end
end
-- Any type of C is an address of IPv6, even a string to LuaJIT.
local function address(ip)
  if type(ip) == "string" then error("an address is not text: see str_to_prefix", 3) end
  return ip
end
local function no_nil(ip)
  if ip == nil then error("nil is no address", 3) end
  return address(ip)
end

-- The results of the native functions.
local failed = {
  [-2] = "no such prefix", [-12] = "no memory is left", [-22] = "the table, address, length or label is invalid",
  [-28] = "the table is full",
}

-- The functions of one family; `mark` is "" or "6" in their names, `most` its longest length,
-- `bytes` a pointer to an address's bytes.
local function family(number, mark, most, addr, bytes)
  local lpm = "struct rutter_lpm" .. mark .. " *"
  local lpm_t = ffi.typeof(lpm)
  local make = bind(number, "make", lpm, "void *, uint32_t, uint32_t")
  local read = bind(number, "read", lpm, "void *, const char *, size_t, int64_t")
  local free = bind(number, "free", "void", lpm)
  local add = bind(number, "add", "int32_t", lpm .. "," .. addr .. ", uint32_t, uint32_t")
  local del = bind(number, "del", "int32_t", lpm .. "," .. addr .. ", uint32_t")
  local find = bind(number, "find", "int32_t", lpm .. "," .. addr)
  local find_slowly = bind(number, "find_slowly", "int32_t", lpm .. "," .. addr)
  local groups = bind(number, "groups", "int32_t", lpm .. "," .. addr .. ", uint32_t")
  local paras = bind(number, "paras", "double", lpm .. ", int32_t")
  local mask_text = bind(number, "mask_text", "size_t", addr .. ", uint32_t, char *, size_t")
  local name = "lpm" .. mark

  -- The address without the bits behind `depth`, as text.
  local function masked(ip, depth)
    return ffi.string(text, mask_text(ip, depth, text, 64))
  end

  M["new_" .. name] = function(max_rules, num_tbl8s)
    return gc(make(library, max_rules, num_tbl8s or 0), free)
  end
  M[name .. "_from_file"] = function(file, label)
    local table = read(library, file, #file, label or -1)
    if table == nil then error(ffi.string(why(library)), 2) end
    return gc(table, free)
  end
  M[name .. "_add"] = function(table, ip, depth, label)
    local code = add(table, address(ip), depth, label)
    if code ~= 0 then
      error(("%s_add: %s/%s: %s"):format(name, masked(ip, most), tostring(depth), failed[code]), 2)
    end
  end
  M[name .. "_del"] = function(table, ip, depth) return del(table, address(ip), depth) end
  M[name .. "_lookup"] = function(table, ip) return find(table, address(ip)) end
  -- 0 where the engine answers as the prefixes do.
  M[name .. "_debug_lookup"] = function(table, ip)
    local found, right = find(table, address(ip)), find_slowly(table, ip)
    if found == -22 then error(("%s_debug_lookup: %s"):format(name, failed[found]), 2) end
    if found ~= right then
      local message = "%s_debug_lookup: %s: the table has %d, its prefixes %d"
      error(message:format(name, masked(ip, most), found, right), 2)
    end
    return 0
  end
  -- The tbl8s that a prefix needs beside those of a table of prefixes; or, without one, beside those
  -- of the prefixes that `seen` remembers: one for each byte of the length behind the third.
  M[name .. "_add_tbl8s"] = function(ip, depth, seen)
    if ffi.istype(lpm_t, ip) then return groups(ip, address(depth), seen) end
    depth_of(depth, most)
    if type(seen) ~= "table" then error("the last argument is a table, which remembers prefixes", 2) end
    local first, new = bytes(no_nil(ip)), 0
    for n = 3, math.ceil(depth / 8) - 1 do
      local key = ffi.string(first, n)
      if not seen[key] then seen[key], new = true, new + 1 end
    end
    return new
  end
  -- As it was made: rules at most, and tbl8s.
  M[name .. "_get_paras"] = function(table) return paras(table, 0), paras(table, 1) end
  M["ip" .. mark .. "_mask_addr"] = function(ip, depth)
    depth_of(depth, most)
    return masked(no_nil(ip), depth)
  end
end
local word = ffi.new "uint32_t[1]"
family("4", "", 32, "uint32_t", function(ip)
  word[0] = ip
  return word
end)
-- Policies have arrays, structures and pointers.
family("6", "6", 128, "const void *", function(ip) return cast("const char *", ip) end)

return M
