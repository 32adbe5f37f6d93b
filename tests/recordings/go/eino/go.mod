module goldspan/eino

go 1.25.0

require (
	github.com/bytedance/sonic v1.15.4
	github.com/cloudwego/eino v0.7.36
	github.com/cloudwego/eino-ext/callbacks/apmplus v0.0.3-0.20260228075615-1332771b7a8e
	github.com/cloudwego/eino-ext/components/model/openai v0.1.7
)
