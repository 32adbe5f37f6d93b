// Plays turns with an agent of Eino's, and APMPlus's callbacks: eino MODE MODEL_URL OTLP_GRPC_ADDRESS SESSION TURN...
// MODE is plain or stream.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"os"
	"strings"
	"time"

	"github.com/cloudwego/eino-ext/callbacks/apmplus"
	"github.com/cloudwego/eino-ext/components/model/openai"
	"github.com/cloudwego/eino/callbacks"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"
)

type place struct {
	City string `json:"city"`
	Unit string `json:"unit"`
	Days int    `json:"days"`
}

type weather struct {
	place
	Temp float64 `json:"temp"`
}

type temperature struct {
	Value    float64 `json:"value"`
	FromUnit string  `json:"from_unit"`
	ToUnit   string  `json:"to_unit"`
}

type converted struct {
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

type booking struct {
	Restaurant struct {
		Name string `json:"name"`
		ID   int    `json:"id"`
	} `json:"restaurant"`
	People int     `json:"people"`
	When   string  `json:"when"`
	Notes  *string `json:"notes"`
}

type booked struct {
	Confirmed bool   `json:"confirmed"`
	ID        string `json:"id"`
	People    int    `json:"people"`
	When      string `json:"when"`
}

func getWeather(_ context.Context, where place) (weather, error) {
	return weather{where, 21.5}, nil
}

func convert(_ context.Context, asked temperature) (converted, error) {
	return converted{math.Round((asked.Value*9/5+32)*100) / 100, asked.ToUnit}, nil
}

func bookTable(_ context.Context, asked booking) (booked, error) {
	if strings.HasSuffix(asked.When, "19:30") {
		return booked{}, errors.New("slot 19:30 is full, try 20:00")
	}
	return booked{true, "bk-7", asked.People, asked.When}, nil
}

// Without this, the first tool that fails ends the turn.
func told(inner tool.BaseTool, err error) tool.BaseTool {
	check(err)
	return utils.WrapToolWithErrorHandler(inner, func(_ context.Context, err error) string { return err.Error() })
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func say(ctx context.Context, agent *react.Agent, history []*schema.Message) (*schema.Message, error) {
	if os.Args[1] != "stream" {
		return agent.Generate(ctx, history)
	}
	pieces, err := agent.Stream(ctx, history)
	check(err)
	return schema.ConcatMessageStream(pieces)
}

func main() {
	ctx := context.Background()
	handler, shutdown, err := apmplus.NewApmplusHandler(&apmplus.Config{Host: os.Args[3], ServiceName: "go-eino"})
	check(err)
	callbacks.AppendGlobalHandlers(handler)
	ctx = apmplus.SetSession(ctx, apmplus.WithSessionID(os.Args[4]))
	model, err := openai.NewChatModel(ctx, &openai.ChatModelConfig{APIKey: "none", BaseURL: os.Args[2], Model: "fake-model"})
	check(err)
	tools := []tool.BaseTool{
		told(utils.InferTool("get_weather", "Weather forecast.", getWeather)),
		told(utils.InferTool("convert", "Convert a temperature.", convert)),
		told(utils.InferTool("book_table", "Book a table.", bookTable)),
	}
	agent, err := react.NewAgent(ctx, &react.AgentConfig{
		ToolCallingModel: model,
		ToolsConfig:      compose.ToolsNodeConfig{Tools: tools},
		GraphName:        "weather_agent",
	})
	check(err)
	history := []*schema.Message{schema.SystemMessage("Be brief.")}
	for _, text := range os.Args[5:] {
		history = append(history, schema.UserMessage(text))
		answer, err := say(ctx, agent, history)
		check(err)
		history = append(history, answer)
		fmt.Println(answer.Content)
	}
	// The spans of a stream end after the one that reads it.
	time.Sleep(200 * time.Millisecond)
	check(shutdown(ctx))
}
