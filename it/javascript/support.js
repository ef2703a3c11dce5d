/** What the checks in JavaScript share. The addresses come from the environment. */
const assert = require("node:assert/strict");

const configuration = (endpoint) => ({
  endpoint,
  region: "us-east-1",
  credentials: { accessKeyId: "test", secretAccessKey: "test" },
  maxAttempts: 1,
});

/** The promise fails with an error of this name, whose message has this text. */
async function refused(name, text, promise) {
  const error = await promise.then(
    (reply) => assert.fail(`not refused with ${name}: ${JSON.stringify(reply)}`),
    (error) => error,
  );
  assert.equal(error.name, name, `${error.name}: ${error.message}`);
  assert.ok(error.message.includes(text), error.message);
  return error;
}

/** Runs the parts of a check one after the other. What went wrong is said in the last line. */
async function run(...parts) {
  for (const part of parts) {
    console.log(part.name);
    try {
      await part();
    } catch (error) {
      console.error(error);
      console.error(`${part.name}: ${error.name}: ${error.message.replaceAll("\n", " ")}`);
      process.exit(1);
    }
  }
}

module.exports = { configuration, refused, run };
