"""What SmolLM2 is asked: questions in the model's own form of a chat, and plain text to go on with."""

# Each is one conversation: what the user says first, what the answer was, what follows.
CHATS = [
    ["What is the capital of Portugal?"],
    ["Why is the sky blue? Answer in two sentences."],
    ["Write a short poem about a lighthouse in winter."],
    ["Give me five ideas for a cheap dinner."],
    ["Explain what a hash table is to a child."],
    ["Write a Python function that returns the largest of three numbers."],
    ["Translate to French: The train leaves at seven in the morning."],
    ["What is 17 plus 26?"],
    [
        "My name is Ada and I keep bees.",
        "That sounds wonderful, Ada! How many hives do you have?",
        "Four. What should I do for them in autumn?",
    ],
    ["Summarise this in one sentence: " + "The old mill stood at the bend of the river for two hundred years. It ground the corn of seven villages, and the miller knew every farmer by name. When the railway came, the corn went to the city, where flour was cheaper, and the wheel stood still. For a while the building was a school, then a store for hay. Last year three neighbours bought it together. They repaired the roof, cleaned the channel and set the wheel turning again. It now drives a small generator that lights the street as far as the church, and on Saturdays the youngest of the three grinds a sack of wheat for anyone who wants to watch. Children come from the town by bus. They are most surprised by the noise, and by the flour, which is warm when it leaves the stone. The council has offered to pay for a bridge, so that the path along the river can be used again, but the owners are not sure whether they want more visitors than the yard can hold. They have asked the village to decide. The meeting is in the school hall on the first of March, and for once every seat is likely to be taken. Those who are against the bridge say that the quiet of the valley is worth more than a few coins from tourists. Those who are for it say that the quiet has emptied half of the houses."],
    ["Write an email to a landlord about a broken heater."],
    ["hi"],
]

TEXTS = [
    "Once upon a time, in a village at the foot of a mountain,",
    "def fibonacci(n):\n    \"\"\"Returns the n-th Fibonacci number.\"\"\"\n",
    "The three states of matter are",
    "Shopping list:\n1. Apples\n2. Bread\n3.",
    "fn main() {\n    let numbers = vec![3, 1, 2];\n",
    "Monday, Tuesday, Wednesday,",
    "SELECT name, price FROM products WHERE",
    "Straße, café, naïve, 北京 and 😀 are words that",
]
