// franz-go from one end to the other; arguments: broker, topic. Says what it saw as JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const count = 50

type seen struct {
	Partition int32
	Offset    int64
	Key       string
	Value     string
	Header    string
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func client(broker string, options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(options, kgo.SeedBrokers(broker))...)
	check(err)
	return made
}

func create(ctx context.Context, broker, topic string) error {
	request := kmsg.NewPtrCreateTopicsRequest()
	wanted := kmsg.NewCreateTopicsRequestTopic()
	wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = topic, 2, 1
	request.Topics = append(request.Topics, wanted)
	asking := client(broker)
	defer asking.Close()
	answer, err := request.RequestWith(ctx, asking)
	check(err)
	return kerr.ErrorForCode(answer.Topics[0].ErrorCode)
}

func produce(ctx context.Context, broker, topic string) {
	producer := client(broker, kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	defer producer.Close()
	for number := 0; number < count; number++ {
		record := &kgo.Record{
			Topic: topic, Partition: int32(number % 2),
			Key: []byte(fmt.Sprint("key ", number)), Value: []byte(fmt.Sprint("value ", number)),
			Headers: []kgo.RecordHeader{{Key: "of", Value: []byte(fmt.Sprint("header ", number))}},
		}
		producer.Produce(ctx, record, func(_ *kgo.Record, err error) { check(err) })
	}
	check(producer.Flush(ctx))
}

// Reads so many records as a member of a group, and commits behind the last of them.
func readInGroup(ctx context.Context, broker, topic string, wanted int) []seen {
	consumer := client(broker, kgo.ConsumerGroup("of-"+topic), kgo.ConsumeTopics(topic),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer consumer.Close()
	found := []seen{}
	for len(found) < wanted {
		fetches := consumer.PollRecords(ctx, wanted-len(found))
		for _, failed := range fetches.Errors() {
			check(failed.Err)
		}
		for _, each := range fetches.Records() {
			found = append(found, seen{each.Partition, each.Offset, string(each.Key),
				string(each.Value), string(each.Headers[0].Value)})
			check(consumer.CommitRecords(ctx, each))
		}
	}
	check(consumer.LeaveGroupContext(ctx))
	return found
}

func main() {
	broker, topic := os.Args[1], os.Args[2]
	ctx, done := context.WithTimeout(context.Background(), 30*time.Second)
	defer done()
	check(create(ctx, broker, topic))
	again := create(ctx, broker, topic)
	produce(ctx, broker, topic)
	first := readInGroup(ctx, broker, topic, count/2)
	second := readInGroup(ctx, broker, topic, count/2)
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"first": first, "second": second, "again": fmt.Sprint(again)}))
}
