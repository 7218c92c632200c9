// An MCP client's first steps in plain Node over HTTPS: initialize, initialized, tools/list. node_client.mjs URL
const url = process.argv[2]
const headers = {"content-type": "application/json", accept: "application/json, text/event-stream"}
async function post(message) {
  const answer = await fetch(url, {method: "POST", headers, body: JSON.stringify({jsonrpc: "2.0", ...message})})
  const session = answer.headers.get("mcp-session-id")
  if (session) headers["mcp-session-id"] = session
  return await answer.text()
}
const clientInfo = {name: "node-client", version: "1.0.0"}
await post({id: 1, method: "initialize", params: {protocolVersion: "2025-06-18", capabilities: {}, clientInfo}})
await post({method: "notifications/initialized"})
console.log((await post({id: 2, method: "tools/list"})).includes("echo"))
