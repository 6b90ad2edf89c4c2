// KafkaJS from one end to the other; arguments: broker, topic. Says what it saw as one line of JSON.
const { Kafka, CompressionTypes, logLevel } = require("kafkajs");

const [broker, topic] = process.argv.slice(2);
const kafka = new Kafka({ clientId: "test", brokers: [broker], logLevel: logLevel.ERROR });
const COUNT = 50;

async function readInGroup(count) {
  const consumer = kafka.consumer({ groupId: `of-${topic}`, heartbeatInterval: 500 });
  const seen = [];
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await new Promise((enough, failed) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => failed(payload.error));
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        if (seen.length >= count) return;
        seen.push({
          partition,
          offset: message.offset,
          key: message.key && message.key.toString(),
          value: message.value && message.value.toString(),
          header: message.headers.of && message.headers.of.toString(),
          timestamp: message.timestamp,
        });
        const next = { topic, partition, offset: String(Number(message.offset) + 1) };
        await consumer.commitOffsets([next]);
        if (seen.length === count) enough();
      },
    });
  });
  await consumer.disconnect();
  return seen;
}

async function errorOf(work) {
  try {
    await work();
  } catch (error) {
    return (error.errors ? error.errors[0] : error).type;
  }
}

async function main() {
  const admin = kafka.admin();
  const producer = kafka.producer({ idempotent: true });
  await Promise.all([admin.connect(), producer.connect()]);
  await admin.createTopics({ topics: [{ topic, numPartitions: 2 }] });
  const messages = [...Array(COUNT).keys()].map((number) => ({
    key: `key ${number}`,
    value: number % 7 === 3 ? null : `value ${number}`,
    headers: { of: `header ${number}` },
    partition: number % 2,
    timestamp: String(Date.now()),
  }));
  await producer.send({ topic, messages, acks: -1, compression: CompressionTypes.GZIP });
  const first = await readInGroup(COUNT / 2);
  const second = await readInGroup(COUNT / 2);
  const offsets = await admin.fetchTopicOffsets(topic);
  const error = await errorOf(() =>
    admin.createPartitions({ topicPartitions: [{ topic, count: 1 }] }));
  await admin.deleteTopics({ topics: [topic] });
  const topics = await admin.listTopics();
  await Promise.all([admin.disconnect(), producer.disconnect()]);
  console.log(JSON.stringify({ first, second, offsets, error, topics }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
