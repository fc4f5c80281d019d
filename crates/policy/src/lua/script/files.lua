-- `io.open` and `io.lines` read the files that the policy was given, without a system call, for
-- which the process would be ended.
local native, library = ...
local ffi = require "ffi"
local content = ffi.cast("const char *(*)(void *, const char *, size_t *)", native.content)
local find, sub, min = string.find, string.sub, math.min

local File = {}
File.__index = File

local function line(file)
  local text, at = file.text, file.at
  if not text then error("the file is closed", 2) end -- its callers make tail calls
  if at > #text then return nil end
  local _, to, found = find(text, "([^\n]*)\n?", at)
  file.at = to + 1
  return found
end

-- A line, all that is left, or a number of bytes.
function File:read(what)
  what = what or "*l"
  if what == "*l" or what == "l" then return line(self) end
  local text, at = self.text, self.at
  if not text then error("the file is closed", 2) end
  local all = what == "*a" or what == "a"
  if not all and not (type(what) == "number" and what >= 0) then
    error(("a policy reads *l, *a or a number of bytes, not %s"):format(tostring(what)), 2)
  end
  if at > #text and not all then return nil end
  local to = all and #text or min(at + what - 1, #text)
  self.at = to + 1
  return sub(text, at, to)
end

function File:lines()
  return function() return line(self) end
end

function File:close()
  self.text = nil
  return true
end

-- As those of Lua: nil and the cause where that is not possible.
function io.open(name, mode)
  name = tostring(name)
  if mode and not find(mode, "^rb?$") then
    return nil, name .. ": a policy only reads files", 13
  end
  local len = ffi.new("size_t[1]", #name)
  local bytes = content(library, name, len)
  if bytes == nil then return nil, name .. ": no such file was given to the policy", 2 end
  return setmetatable({ text = ffi.string(bytes, len[0]), at = 1 }, File)
end

local open = io.open
function io.lines(name)
  local file, why = open(name)
  if not file then error(why, 2) end
  return file:lines()
end

-- `require` of an unknown module looks for no file.
package.path, package.cpath = "", ""
